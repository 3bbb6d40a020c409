"""Sums a tensor over the ranks and says what ran: `lanesum launch -n 2 -- python python/examples/01_sum.py`."""

import lanesum
import numpy

with lanesum.Communicator.from_env() as communicator:
    gradients = numpy.full(7168, communicator.rank + 1, numpy.float32)
    issued = communicator.all_reduce(gradients)
    assert (gradients == sum(range(1, communicator.world_size + 1))).all()
    print(f"rank {communicator.rank}: {issued.bytes:,} bytes by {issued.algorithm}")

    largest = numpy.empty(1, numpy.float32)
    communicator.all_reduce(numpy.array([communicator.rank], numpy.float32), op="max", out=largest)
    assert largest[0] == communicator.world_size - 1

    if communicator.rank == 0:
        print(communicator.explain(gradients))
        print(communicator.counters())
