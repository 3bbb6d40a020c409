"""lanesum sums tensors over the ranks of one host: a receipt or an error, the same bits on every rank, bounded waits.

    import numpy
    import lanesum

    with lanesum.Communicator.from_env() as communicator:
        gradients = numpy.ones(7168, numpy.float32)
        issued = communicator.all_reduce(gradients)
        print(communicator.rank, issued.algorithm, gradients[0])

`lanesum launch -n 2 -- python program.py` starts the ranks. docs/python.md has the rest.
"""

from lanesum._errors import (
    BusyError,
    ClosedError,
    CudaError,
    DeviceError,
    EnvironmentVariableError,
    Error,
    FaultError,
    ForkedError,
    LateError,
    MismatchError,
    PeerDeviceError,
    PlanError,
    PoisonedError,
    RankLostError,
    RefusedError,
    RendezvousError,
    ResourceError,
    SegmentError,
    TensorError,
    TensorTypeError,
)
from lanesum._explain import Explanation
from lanesum._lanesum import VERSION as __version__
from lanesum._lanesum import Communicator, Issued, enabled, policy

__all__ = [
    "BusyError",
    "ClosedError",
    "Communicator",
    "CudaError",
    "DeviceError",
    "EnvironmentVariableError",
    "Error",
    "Explanation",
    "FaultError",
    "ForkedError",
    "Issued",
    "LateError",
    "MismatchError",
    "PeerDeviceError",
    "PlanError",
    "PoisonedError",
    "RankLostError",
    "RefusedError",
    "RendezvousError",
    "ResourceError",
    "SegmentError",
    "TensorError",
    "TensorTypeError",
    "__version__",
    "enabled",
    "policy",
]
