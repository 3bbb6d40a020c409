"""The extension module, typed. crates/lanesum-py has its sources."""

import os
from types import TracebackType
from typing import Any, Final, Literal, TypedDict, TypeVar, final

from typing_extensions import Self, Unpack

from lanesum._explain import Explanation

__all__ = ["VERSION", "Communicator", "Issued", "deadline", "enabled", "policy"]

VERSION: Final[str]

_Tensor = TypeVar("_Tensor")
_Operation = Literal["sum", "max", "min"]

class _Options(TypedDict, total=False):
    """What a rank brings to the meeting. None leaves the default."""

    deadline: float | None
    """Longest wait of a call, seconds (default: what LANESUM_DEADLINE_MS says, else 30)."""
    setup_deadline: float | None
    """Longest that joining may take, seconds (default: the deadline)."""
    engine: Literal["host", "cuda", "auto"] | None
    """Whether GPU memory can be reduced too: `host` (default), `cuda` (or an error), `auto` (if all ranks can)."""
    device: int | None
    """Number of this rank's GPU; asks for the engine `cuda`."""
    algorithm: str | None
    """Pins the algorithm (default `auto`)."""
    path: Literal["auto", "peer", "host_staged"] | None
    """Pins the path between GPUs (default `auto`)."""
    staging: int | None
    """Bytes that a rank posts to its peers at once, a multiple of 4096 (default 1 MiB)."""
    shared_capacity: int | None
    """Bytes of each rank's arena for shared buffers (default 4 MiB). Python has no shared buffers: they would be no faster."""
    tree: str | None
    """Pins the order of combination, as `(0+1)+(2+3)`."""
    isa: str | None
    """Pins the instruction set (default: the best there is)."""
    directory: str | os.PathLike[str] | None
    """Where the rendezvous socket is made (default: the user's runtime directory)."""

class _DeviceCounters(TypedDict):
    calls: int
    exchanges: int
    waited: dict[int, float]

class _Counters(TypedDict):
    calls: int
    chunks: int
    bytes: int
    by_algorithm: dict[str, int]
    waited: dict[int, float]
    naps: int
    device: _DeviceCounters | None

def enabled() -> bool:
    """Whether the environment lets lanesum run: not where LANESUM is 0, and then no communicator is made.

    Raises:
        EnvironmentVariableError: LANESUM is neither yes nor no.
    """

def policy() -> Literal["exact", "fastest"] | None:
    """What LANESUM_POLICY says of who carries messages where an engine leaves it to lanesum; None where it is not set.

    Raises:
        EnvironmentVariableError: it is another word.
    """

def deadline() -> float | None:
    """The longest wait that LANESUM_DEADLINE_MS says, in seconds; None where it is not set.

    Raises:
        EnvironmentVariableError: it is no number of milliseconds, or out of range.
    """

@final
class Issued:
    """Proof that a named reduction was issued on this rank. There is no other way to get one than a call that succeeded."""

    @property
    def state(self) -> Literal["done", "enqueued", "captured"]:
        """`done`: the output holds the result. `enqueued`: it will, in the order of the stream. `captured`: each time that the graph runs."""
    @property
    def algorithm(self) -> str:
        """The algorithm that ran, or will."""
    @property
    def engine(self) -> Literal["host", "cuda"]:
        """The engine that ran it."""
    @property
    def path(self) -> str:
        """How bytes reached the peers."""
    @property
    def bytes(self) -> int:
        """Bytes of the message on one rank."""
    @property
    def ordinal(self) -> int | None:
        """Number of the call on its communicator, from 0; None for one that was captured."""
    @property
    def epoch(self) -> int | None:
        """Epoch of the call's last exchange; None on GPUs."""
    @property
    def capture(self) -> int | None:
        """Number of the capture, from 0; None for a call that was not captured."""
    @property
    def position(self) -> int | None:
        """Number of the call in its capture, from 0; None for a call that was not captured."""
    @property
    def output(self) -> Any:
        """The tensor that gets the result: `out`, or the tensor itself. None for a barrier."""
    def wait(self) -> None:
        """Waits until the call has completed. Ctrl-C ends the wait and leaves the call alone.

        Raises:
            FaultError: the call, or one before it, has failed; the output holds NaN.
            CudaError: nothing has ended for two seconds more than the deadline; nothing is known of the call.
            RefusedError: the call was captured.
        """
    def poll(self) -> bool:
        """Whether the call has completed; never waits. Raises as `wait` does."""

@final
class Communicator:
    """One rank's end of a group of ranks that reduce together. One caller at a time, and one order of calls on all ranks."""

    def __new__(cls, rank: int, world: int, name: str, **options: Unpack[_Options]) -> Self:
        """Joins as rank `rank` (from 0) of `world` (1 to 16); ranks that give the same `name` meet.

        Raises:
            RendezvousError: who is missing, or differs in what, at the latest after the set-up deadline.
            PlanError, SegmentError, CudaError, PeerDeviceError, ResourceError: what can't be set up, and why.
        """
    @staticmethod
    def from_env(**options: Unpack[_Options]) -> Communicator:
        """Joins the ranks that torchrun, Open MPI, MPICH, Intel MPI or `lanesum launch` started.

        Raises:
            EnvironmentVariableError: what is missing, malformed or contradictory; else as the constructor.
        """
    @staticmethod
    def from_torch(group: Any = None, **options: Unpack[_Options]) -> Communicator:
        """Joins the ranks of a process group of torch.distributed (the default one without `group`), all of one host.

        A process that uses CUDA brings its current GPU; `device` or `engine` say otherwise.
        """
    @staticmethod
    def from_mpi(comm: Any, **options: Unpack[_Options]) -> Communicator:
        """Joins the ranks of a communicator of mpi4py, all of one host."""
    def all_reduce(
        self,
        tensor: Any,
        op: _Operation | None = None,
        out: Any = None,
        stream: Any = None,
        label: int | None = None,
    ) -> Issued:
        """Combines each element over all ranks (`sum` by default), into `out` if given, else in place.

        Args:
            tensor: a dense float32, float16 or bfloat16 tensor of any shape: NumPy, torch, CuPy, JAX (with `out`), or anything with
                DLPack or an array interface. All ranks give the same number of elements.
            op: `sum`, `max` or `min`.
            out: a tensor of the same length, dtype and place, the same memory or apart from it.
            stream: for GPU memory, a handle or a stream of torch, CuPy or cuda.core; by default torch's current stream, or the one
                that the tensor's interface names.
            label: marks the call, so that equal calls in another order are found out; the same on all ranks.

        Raises:
            RefusedError (TensorError, TensorTypeError, DeviceError, ClosedError, BusyError, ForkedError): nothing happened.
            FaultError (RankLostError, LateError, MismatchError): this call failed, or one before of which nothing was told; the output
                holds NaN, the communicator is spent.
            PoisonedError: an earlier call failed, as was told; the output holds NaN.
        """
    def barrier(self) -> Issued:
        """Returns when every rank has called it. Raises as `all_reduce`."""
    def split(self, color: int | None, key: int = 0) -> Communicator | None:
        """Makes a communicator of each group of ranks that give the same colour, ordered by key, then rank. All ranks call it; those
        that give None get None."""
    def channel(self) -> Communicator:
        """A second communicator of the same ranks, to overlap with this one. All ranks call it."""
    def check(self) -> None:
        """Raises what calls on a stream, or launches of a graph, have met meanwhile; never waits.

        Raises:
            FaultError: what was met, if nothing has told of it.
            PoisonedError: the same, if something has.
        """
    def close(self) -> None:
        """Leaves the communicator. Doing so again has no effect.

        Raises:
            FaultError, PoisonedError: a call has failed before, as `check` says; the communicator is gone in any case.
        """
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
    def explain(
        self,
        tensor: Any,
        op: _Operation | None = None,
        dtype: str | None = None,
        buffers: Literal["private", "shared", "device"] | None = None,
    ) -> Explanation:
        """The decision for a tensor, or for so many elements of `dtype` (in `buffers`), with all that was refused and why."""
    def delegate_from(self, dtype: str = "bfloat16", op: _Operation | None = None) -> int | None:
        """Bytes from which NCCL is predicted to reduce GPU memory sooner than what runs here; None where it never is, as without GPUs.

        For engines that have NCCL and may hand messages over. The same on all ranks. Takes up to a millisecond: ask once.
        """
    def counters(self) -> _Counters:
        """What ran so far, and how long each peer was waited for, in seconds by rank."""
    @property
    def rank(self) -> int:
        """This rank, from 0."""
    @property
    def world_size(self) -> int:
        """Number of ranks."""
    @property
    def device(self) -> int | None:
        """Number of the GPU whose memory is reduced; None if only the host's is."""
    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
    @property
    def deadline(self) -> float:
        """The longest that one wait of a call may last, seconds; may be set."""
    @deadline.setter
    def deadline(self, seconds: float) -> None: ...
    @property
    def tree(self) -> str:
        """The order in which elements are combined."""
    @property
    def isa(self) -> str:
        """The instruction set that this rank sums with."""
    @property
    def without_device(self) -> str | None:
        """Why there is no GPU although the engine is `auto`."""
    @property
    def memory(self) -> int:
        """Bytes of host memory that the ranks share, of all together."""
    @property
    def device_memory(self) -> int:
        """Bytes of GPU memory that this rank has taken for itself."""
    @property
    def setup_time(self) -> float:
        """How long joining took on this rank, seconds."""
    @property
    def lost_ranks(self) -> list[int]:
        """The ranks whose process is known to have ended, ascending."""
    @property
    def plan_digest(self) -> int:
        """The digest of the plan that all ranks agreed on."""
    @property
    def topology(self) -> dict[str, Any]:
        """What was observed of the host and its ranks."""
