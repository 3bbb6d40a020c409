"""What goes wrong with peers: each rank raises, in time, and names who is to blame."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import lanesum
import numpy
import pytest
import ranks

MISMATCHES: dict[str, dict[str, Any]] = {
    "size": {"size": 8},
    "dtype": {"dtype": numpy.float16},
    "operation": {"op": "max"},
    "label": {"label": 2},
}


def mismatched(rank: int, world: int, name: str, case: str) -> tuple[Any, float, bool, str]:
    words = {"size": 7, "dtype": numpy.float32, "op": "sum", "label": 1}
    if rank == 1:
        words |= MISMATCHES[case]
    communicator = lanesum.Communicator(rank, world, name, deadline=20)
    tensor = numpy.ones(words["size"], words["dtype"])
    started = time.monotonic()
    with pytest.raises(lanesum.MismatchError) as told:
        communicator.all_reduce(tensor, words["op"], label=words["label"])
    took = time.monotonic() - started
    with pytest.raises(lanesum.PoisonedError) as later:
        communicator.all_reduce(tensor)
    with pytest.raises(lanesum.PoisonedError):
        communicator.close()
    assert communicator.closed
    return told.value, took, bool(numpy.isnan(tensor.astype(numpy.float32)).all()), str(later.value)


@pytest.mark.parametrize("case", MISMATCHES)
def test_calls_that_differ_are_named_on_every_rank(case: str) -> None:
    for error, took, spoilt, later in ranks.succeeded(ranks.run(3, mismatched, case)):
        assert 1 in error.ranks and error.kind == "mismatch" and error.rank == error.ranks[0]
        assert "rank 1 called" in str(error) and "; hint: all ranks must make the same calls" in str(error)
        assert took < 5 and spoilt
        assert "poisoned" in later and "make a new communicator" in later


def killed(rank: int, world: int, name: str, how: str) -> tuple[Any, float, bool]:
    communicator = lanesum.Communicator(rank, world, name, deadline=30)
    tensor = numpy.ones(5003, numpy.float32)
    for _ in range(10):
        communicator.all_reduce(tensor)
    communicator.barrier()
    if rank == 1:
        if how == "departed":
            communicator.close()
            time.sleep(1)
            return None, 0.0, True
        os.kill(os.getpid(), signal.SIGKILL)
    started = time.monotonic()
    with pytest.raises(lanesum.RankLostError) as told:
        while True:
            communicator.all_reduce(tensor)
    took = time.monotonic() - started
    while how == "died" and 1 not in communicator.lost_ranks:
        # A peer may have noticed before this rank did.
        assert time.monotonic() - started < 5
    return told.value, took, bool(numpy.isnan(tensor).all())


@pytest.mark.parametrize("how", ["died", "departed"])
def test_a_rank_that_ends_is_named_by_the_others(how: str) -> None:
    outcomes = ranks.run(3, killed, how)
    if how == "died":
        assert outcomes[1] == ranks.Died(-signal.SIGKILL)
    for error, took, spoilt in ranks.succeeded([outcomes[0], outcomes[2]]):
        assert error.ranks == (1,) and error.rank == 1 and error.kind == how
        assert "; hint: " in str(error) and took < 5 and spoilt


def late(rank: int, world: int, name: str) -> Any:
    communicator = lanesum.Communicator(rank, world, name, deadline=20)
    communicator.deadline = 0.3
    assert communicator.deadline == 0.3
    if rank == 1:
        time.sleep(1.5)
        # This one may be right, as rank 0 had come; the next can't be.
        with pytest.raises(lanesum.Error) as told:
            for _ in range(2):
                communicator.all_reduce(numpy.ones(3, numpy.float32))
        return told.value
    with pytest.raises(lanesum.LateError) as told:
        communicator.all_reduce(numpy.ones(3, numpy.float32))
    return told.value


def test_a_rank_that_does_not_come_is_named_at_the_deadline() -> None:
    error, _ = ranks.succeeded(ranks.run(2, late))
    assert error.ranks == (1,) and error.kind == "late" and "LANESUM_DEADLINE_MS" in error.hint


def absent(rank: int, world: int, name: str) -> Any:
    with pytest.raises(lanesum.RendezvousError) as told:
        lanesum.Communicator(0, 2, name, setup_deadline=0.3)
    return told.value


def test_joining_ends_at_its_deadline() -> None:
    (error,) = ranks.succeeded(ranks.run(1, absent))
    assert error.ranks == (1,) and "rank 1" in str(error) and "; hint: " in str(error)


def test_control_c_ends_a_join() -> None:
    program = "import lanesum; print('go', flush=True); lanesum.Communicator(0, 2, 'never', deadline=50)"
    words = [sys.executable, "-c", program.replace("never", ranks.name())]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stdout.readline() == "go\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        started = time.monotonic()
        _, said = process.communicate(timeout=20)
    assert "KeyboardInterrupt" in said and time.monotonic() - started < 5
    assert process.returncode == -signal.SIGINT


def test_a_join_that_was_interrupted_leaves_the_name_free() -> None:
    program = """
import lanesum, threading
for attempt in range(2):
    try:
        print("go", flush=True)
        lanesum.Communicator(0, 2, NAME, deadline=50)
    except KeyboardInterrupt:
        print(threading.active_count(), flush=True)
lanesum.Communicator(0, 1, NAME).close()
print("alone", flush=True)
lanesum.Communicator(0, 2, NAME, deadline=20).close()
print("met", flush=True)
"""
    name = ranks.name()
    words = [sys.executable, "-c", program.replace("NAME", repr(name))]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        for _ in range(2):
            assert process.stdout.readline() == "go\n"
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            assert process.stdout.readline() == "1\n"
        assert process.stdout.readline() == "alone\n"
        lanesum.Communicator(1, 2, name, deadline=20).close()
        said, wrong = process.communicate(timeout=20)
    assert (said, process.returncode) == ("met\n", 0), wrong


def interrupted(rank: int, world: int, name: str) -> Any:
    if rank == 2:
        return None
    if rank == 1:
        threading.Timer(0.5, signal.raise_signal, [signal.SIGINT]).start()
        with pytest.raises(KeyboardInterrupt):
            lanesum.Communicator(rank, world, name, deadline=50)
        return None
    with pytest.raises(lanesum.RendezvousError) as told:
        lanesum.Communicator(rank, world, name, deadline=50)
    return told.value


def test_who_gave_up_is_named_by_the_others() -> None:
    # Rank 2 never comes.
    error, *nothing = ranks.succeeded(ranks.run(3, interrupted))
    assert nothing == [None, None]
    assert error.ranks == (1,) and "rank 1 gave up waiting" in str(error) and error.hint


def handled(rank: int, world: int, name: str) -> bool:
    with lanesum.Communicator(rank, world, name, deadline=20) as communicator:
        with pytest.raises(lanesum.MismatchError):
            communicator.all_reduce(numpy.ones(rank + 1, numpy.float32))
    return communicator.closed


def test_a_fault_that_was_handled_is_not_raised_again_by_leaving() -> None:
    assert ranks.succeeded(ranks.run(2, handled)) == [True, True]


def test_the_tree_of_exceptions() -> None:
    for parent, child in [
        (RuntimeError, lanesum.Error),
        (lanesum.FaultError, lanesum.RankLostError),
        (lanesum.FaultError, lanesum.LateError),
        (TimeoutError, lanesum.LateError),
        (lanesum.FaultError, lanesum.MismatchError),
        (lanesum.RefusedError, lanesum.ClosedError),
        (lanesum.RefusedError, lanesum.TensorError),
        (ValueError, lanesum.TensorError),
        (TypeError, lanesum.TensorTypeError),
        (ValueError, lanesum.PlanError),
        (lanesum.CudaError, lanesum.PeerDeviceError),
    ]:
        assert issubclass(child, parent)
    for kind in vars(lanesum).values():
        if isinstance(kind, type) and issubclass(kind, lanesum.Error):
            error = pickle.loads(pickle.dumps(kind("cause", "hint", "kind", (2, 3))))
            assert (type(error), str(error), error.ranks, error.rank) == (kind, "cause; hint: hint", (2, 3), 2)
            assert str(kind("cause")) == "cause" and kind("cause").rank is None
