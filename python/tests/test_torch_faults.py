"""The backend `lanesum` of torch.distributed where ranks die, differ or give what can't be summed: an exception, in time."""

from __future__ import annotations

import os
import signal
import time
from datetime import timedelta
from typing import Any

import lanesum
import pytest
import ranks
from crew import Crew, free_port, grouped

torch = pytest.importorskip("torch")
import lanesum.torch  # noqa: E402
import torch.distributed as dist  # noqa: E402


def killed(rank: int, world: int, name: str, port: str, how: str) -> Any:
    import lanesum.torch
    import torch.distributed as dist

    address = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("lanesum", init_method=address, rank=rank, world_size=world, timeout=timedelta(seconds=30))
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8)) if how == "ddp" else None
    tensor = torch.ones(5003)
    for _ in range(10):
        dist.all_reduce(tensor)
    dist.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    started = time.monotonic()
    with pytest.raises(RuntimeError) as told:
        while True:
            if how == "wait":
                work = dist.all_reduce(tensor, async_op=True)
                work.wait()
            elif model is not None:
                model(torch.ones(2, 8)).sum().backward()
            else:
                dist.all_reduce(tensor)
    took = time.monotonic() - started
    if how == "wait":
        assert work.is_completed() and not work.is_success() and work.exception() is told.value
    if how != "ddp":
        assert bool(tensor.isnan().all()), "no wrong number is left behind"
    with pytest.raises(lanesum.PoisonedError):
        dist.all_reduce(torch.ones(3))
    dist.destroy_process_group()
    return told.value, took


@pytest.mark.parametrize("how", ["call", "wait", "ddp"])
def test_a_rank_that_is_killed_is_named(how: str) -> None:
    outcomes = ranks.run(2, killed, str(free_port()), how)
    assert outcomes[1] == ranks.Died(-signal.SIGKILL)
    ((error, took),) = ranks.succeeded(outcomes[:1])
    assert took < 10 and "rank 1" in str(error)
    assert isinstance(error, lanesum.RankLostError) and error.ranks == (1,), (type(error), error)


def differing(rank: int, world: int, port: str, how: str) -> Any:
    with grouped(rank, world, port):
        tensor = torch.ones(7 + rank) if how == "size" else torch.ones(3, 4)
        if how == "order":
            tensor = tensor if rank else tensor.t()
        op = dist.ReduceOp.MAX if rank and how == "operation" else dist.ReduceOp.SUM
        with pytest.raises(lanesum.MismatchError) as told:
            dist.all_reduce(tensor, op)
        assert bool(tensor.isnan().all())
        return told.value.ranks


@pytest.mark.parametrize("how", ["size", "operation", "order"])
def test_calls_that_differ_are_found(crew: Crew, how: str) -> None:
    for named in crew.do(differing, how):
        assert named


def late(rank: int, world: int, port: str) -> None:
    with grouped(rank, world, port, timeout=timedelta(seconds=3)):
        dist.all_reduce(torch.ones(2))
        if rank == 0:
            work = dist.all_reduce(torch.ones(2), async_op=True)
            with pytest.raises(lanesum.LateError, match=r"has not completed in the 0\.2 s"):
                work.wait(timedelta(seconds=0.2))
            with pytest.raises(lanesum.LateError) as told:
                work.wait()
            assert told.value.ranks == (1,)
        else:
            time.sleep(4)


def test_the_timeout_of_the_group_is_the_deadline(crew: Crew) -> None:
    crew.do(late)


def bad_input(rank: int, world: int, port: str) -> None:
    with grouped(rank, world, port):
        gaps = torch.ones(4, 6)[:, ::2]
        with pytest.raises(lanesum.TensorError, match="not dense.*hint: call contiguous") as told:
            dist.all_reduce(gaps)
        assert told.value.kind == "strided" and bool((gaps == 1).all())
        with pytest.raises(lanesum.DeviceError, match="meta"):
            dist.all_reduce(torch.ones(3, device="meta"))
        with pytest.raises((TypeError, ValueError)):
            dist.all_reduce([1, 2, 3])
        # Dense in another order of dimensions: as with NCCL, the memory is summed as it lies.
        image = torch.arange(120.0).view(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
        dist.all_reduce(image)
        assert torch.equal(image, torch.arange(120.0).view(2, 3, 4, 5) * 2)
        matrix = torch.arange(12.0).view(3, 4).t()
        dist.all_reduce(matrix, async_op=True).wait()
        assert torch.equal(matrix, torch.arange(12.0).view(3, 4).t() * 2)
        # Autograd knows nothing of it, as with torch's own backends.
        loss = torch.ones(3, requires_grad=True) * 2
        dist.all_reduce(loss)
        assert loss.tolist() == [4.0] * 3 and loss.requires_grad
        parameter = torch.nn.Parameter(torch.ones(3))
        dist.all_reduce(parameter)
        with torch.inference_mode():
            dist.all_reduce(torch.ones(3))
        assert parameter.tolist() == [2.0] * 3 and lanesum.torch.counters()["allreduce"] == {"lanesum": 5}


def test_bad_input_and_what_looks_like_it(crew: Crew) -> None:
    crew.do(bad_input)


def options(rank: int, world: int, port: str) -> None:
    with pytest.raises(lanesum.RefusedError, match="takes no pg_options"), grouped(rank, world, port, pg_options=object()):
        pass
    with grouped(rank, world, str(int(port) + 1)):
        pass


def test_options_of_another_backend(crew: Crew) -> None:
    crew.do(options)


def forked(rank: int, world: int, port: str) -> None:
    with grouped(rank, world, port):
        tensor = torch.ones(3)
        dist.all_reduce(tensor, async_op=True).wait()
        group, options = dist.group.WORLD, [dist.AllreduceOptions(), dist.AllreduceOptions()]
        options[0].asyncOp = False
        child = os.fork()
        if child == 0:
            # Of a process with threads: it may meet a lock of torch's that nobody opens any more.
            signal.alarm(20)
            refused = 0
            for each in options:
                try:
                    group.allreduce([tensor], each)
                except lanesum.ForkedError:
                    refused += 1
            os._exit(10 + refused)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 12
        dist.all_reduce(tensor)
        assert tensor.tolist() == [4.0] * 3


def test_a_forked_child_is_refused(crew: Crew) -> None:
    crew.do(forked)


def busy_timeout(rank: int, world: int, port: str) -> None:
    with grouped(rank, world, port):
        if rank == 1:
            time.sleep(1)
        works = [dist.all_reduce(torch.ones(3), async_op=True) for _ in range(3)]
        dist.group.WORLD.set_timeout(timedelta(seconds=30))
        for work in works:
            work.wait()
        assert lanesum.torch.communicators()["cpu"].deadline == 30


def test_the_timeout_may_be_set_while_sums_are_under_way(crew: Crew) -> None:
    crew.do(busy_timeout)


def aborted(rank: int, world: int, name: str, port: str) -> list[str]:
    address = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("lanesum", init_method=address, rank=rank, world_size=world, timeout=timedelta(seconds=5))
    dist.all_reduce(torch.ones(3))
    dist.barrier()
    told: list[str] = []
    if rank == 0:
        works = [dist.all_reduce(torch.ones(3), async_op=True) for _ in range(3)]
        time.sleep(0.3)
        dist.group.WORLD.abort()
        for work in works:
            with pytest.raises(lanesum.Error) as raised:
                work.wait()
            told.append(type(raised.value).__name__)
    else:
        time.sleep(8)
    return told


def test_what_waits_behind_a_call_that_was_given_up_is_told() -> None:
    told, _ = ranks.succeeded(ranks.run(2, aborted, str(free_port())))
    assert told == ["LateError", "ClosedError", "ClosedError"]


def test_work_that_comes_when_the_thread_leaves_ends() -> None:
    from lanesum.torch._lanes import Worker

    worker, done = Worker(), list[int]()
    first = worker.submit(lambda: done.append(1))
    worker.end()
    first.result(timeout=5)
    with pytest.raises(lanesum.ClosedError, match="destroyed; hint"):
        worker.submit(lambda: done.append(2)).result(timeout=5)
    assert done == [1]


def aborted_idle(rank: int, world: int, name: str, port: str) -> Any:
    address = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("lanesum", init_method=address, rank=rank, world_size=world, timeout=timedelta(seconds=20))
    dist.all_reduce(torch.ones(3))
    dist.barrier()
    if rank == 0:
        dist.group.WORLD.abort()
        time.sleep(5)
        return None
    started = time.monotonic()
    with pytest.raises(lanesum.RankLostError) as raised:
        dist.all_reduce(torch.ones(3))
    assert time.monotonic() - started < 4
    return raised.value.ranks


def test_the_peers_of_a_group_that_is_given_up_are_told_at_once() -> None:
    assert ranks.succeeded(ranks.run(2, aborted_idle, str(free_port()))) == [None, (0,)]


def gone(rank: int, world: int, name: str, port: str) -> Any:
    address = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("lanesum", init_method=address, rank=rank, world_size=world, timeout=timedelta(seconds=40))
    dist.all_reduce(torch.ones(3))
    dist.barrier()
    if rank == 0:
        dist.all_reduce(torch.ones(3), async_op=True)
        time.sleep(0.3)
        return "leaves with a sum that nobody waits for"
    started = time.monotonic()
    time.sleep(1)
    with pytest.raises(lanesum.RankLostError):
        # The first is the one that the other rank has called.
        for _ in range(2):
            dist.all_reduce(torch.ones(3))
    assert time.monotonic() - started < 10
    return None


def test_a_process_ends_though_a_sum_is_under_way() -> None:
    started = time.monotonic()
    ranks.succeeded(ranks.run(2, gone, str(free_port())))
    assert time.monotonic() - started < 25


def child_waits(rank: int, world: int, port: str) -> None:
    with grouped(rank, world, port):
        dist.all_reduce(torch.ones(3))
        if rank == 1:
            time.sleep(2)
        work = dist.all_reduce(torch.ones(3), async_op=True)
        child = os.fork() if rank == 0 else None
        if child == 0:
            signal.alarm(20)
            refused = 0
            for use in (work.wait, lambda: dist.group.WORLD.broadcast([torch.ones(2)])):
                try:
                    use()
                except lanesum.ForkedError:
                    refused += 1
            dist.group.WORLD.shutdown()
            os._exit(10 + refused)
        if child is not None:
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 12
        work.wait()


def test_a_forked_child_waits_for_nothing_of_its_parent(crew: Crew) -> None:
    crew.do(child_waits)


def left(rank: int, world: int, name: str, port: str, how: str) -> int:
    address = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("lanesum", init_method=address, rank=rank, world_size=world, timeout=timedelta(seconds=5))
    tensor = torch.ones(1000)
    dist.all_reduce(tensor)
    dist.barrier()
    if how == "abort":
        # The peer does not call.
        work = dist.all_reduce(tensor, async_op=True) if rank == 0 else None
        dist.distributed_c10d._abort_process_group()
        if work is not None:
            with pytest.raises(lanesum.Error):
                work.wait()
    else:
        dist.all_reduce(tensor, async_op=True)
    return 7


@pytest.mark.parametrize("how", ["open", "abort"])
def test_a_process_may_end_with_its_group_open(how: str) -> None:
    assert ranks.succeeded(ranks.run(2, left, str(free_port()), how)) == [7, 7]
