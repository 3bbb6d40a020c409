"""Goes on after a fault: a rank calls something else, all are told, and they meet anew.

`lanesum launch -n 2 -- python python/examples/02_recover.py`
"""

import os

import lanesum
import numpy

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
job = os.environ["LANESUM_RENDEZVOUS"]  # which only `lanesum launch` sets

with lanesum.Communicator.from_env() as communicator:
    tensor = numpy.ones(1000 + rank, numpy.float32)  # the mistake
    try:
        communicator.all_reduce(tensor)
    except lanesum.MismatchError as error:
        print(f"rank {rank}: ranks {error.ranks}: {error}")
        assert numpy.isnan(tensor).all(), "no wrong number is left behind"
    else:
        raise AssertionError("sizes that differ are always found")
    # A communicator that has failed says so at its end, too: leave it without asking.
    try:
        communicator.close()
    except lanesum.PoisonedError:
        pass

with lanesum.Communicator(rank, world, f"{job}-again") as communicator:
    tensor = numpy.ones(1000, numpy.float32)
    communicator.all_reduce(tensor)
    assert (tensor == world).all()
    print(f"rank {rank}: goes on, the sum is right")
