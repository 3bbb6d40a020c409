"""Sums of the backend `lanesum` in torch's other forms: asynchronous, coalesced, functional; and in sub-groups."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from crew import Crew, grouped

torch = pytest.importorskip("torch")
import lanesum.torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed._functional_collectives as functional  # noqa: E402


def mine(rank: int, size: int = 6) -> Any:
    return torch.arange(size, dtype=torch.float32) + 10 * rank


def asynchronous(rank: int, world: int, port: str) -> None:
    with grouped(rank, world, port):
        tensors = [mine(rank, 1000) * turn for turn in range(20)]
        works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
        # A call that waits comes behind those that do not.
        last = torch.ones(3)
        dist.all_reduce(last)
        assert all(work.is_completed() and work.is_success() for work in works) and last.tolist() == [2.0] * 3
        for turn, (work, tensor) in enumerate(zip(works, tensors, strict=True)):
            assert work.wait() and work.exception() is None and work.result()[0] is tensor
            assert torch.equal(tensor, (mine(0, 1000) + mine(1, 1000)) * turn)
            assert work.get_future().wait()[0] is tensor
        tensor = mine(rank)
        done = dist.all_reduce(tensor, async_op=True).get_future().then(lambda future: future.wait()[0] * 2)
        assert torch.equal(done.wait(), (mine(0) + mine(1)) * 2)
        # It is asynchronous: this order would wait for ever if the sum did.
        tensor, word = mine(rank), torch.zeros(6)
        if rank == 0:
            work = dist.all_reduce(tensor, async_op=True)
            dist.send(torch.ones(6), 1)
            work.wait()
        else:
            dist.recv(word, 0)
            dist.all_reduce(tensor)
        assert torch.equal(tensor, mine(0) + mine(1))


def test_asynchronous_sums(crew: Crew) -> None:
    crew.do(asynchronous)


def coalesced(rank: int, world: int, port: str) -> dict[str, Any]:
    from torch.distributed.distributed_c10d import _coalescing_manager

    with grouped(rank, world, port):
        for device in (None, torch.device("cpu")):
            for kinds in ((torch.float32,) * 3, (torch.float32, torch.float64, torch.bfloat16), (torch.int64,) * 2):
                tensors = [torch.full((5 + place,), rank + 1).to(kind) for place, kind in enumerate(kinds)]
                with _coalescing_manager(device=device):
                    for tensor in tensors:
                        dist.all_reduce(tensor)
                assert all(bool((tensor == 3).all()) for tensor in tensors)
                with _coalescing_manager(device=device, async_ops=True) as manager:
                    for tensor in tensors:
                        dist.all_reduce(tensor, dist.ReduceOp.MAX)
                manager.wait()
                assert all(bool((tensor == 3).all()) for tensor in tensors)
        out = torch.zeros(2, 6)
        with _coalescing_manager():
            for part in range(2):
                dist.all_gather_into_tensor(out[part], mine(rank, 3) + part)
        assert torch.equal(out[1], torch.cat([mine(0, 3), mine(1, 3)]) + 1)
        return lanesum.torch.counters()


def test_coalesced_sums(crew: Crew) -> None:
    for counted in crew.do(coalesced):
        assert counted["allreduce_coalesced"] == {"lanesum": 20, "gloo": 4} and counted["allreduce"] == {"gloo": 4}


class LikeNccl:
    """A delegate that coalesces by itself, as NCCL does."""

    def __init__(self, group: Any) -> None:
        self.group, self.said = group, list[str]()

    def _start_coalescing(self, device: Any) -> None:
        self.said.append(f"start {device}")

    def _end_coalescing(self, device: Any) -> None:
        self.said.append(f"end {device}")

    def __getattr__(self, name: str) -> Any:
        self.said.append(name)
        return getattr(self.group, name)


def coalesced_by_nccl(rank: int, world: int, port: str) -> None:
    with grouped(rank, world, port):
        group, delegates = dist.group.WORLD, dist.group.WORLD._delegates
        nccl = LikeNccl(delegates.of("cpu"))
        kept = dict(delegates._groups)
        delegates._groups["cpu"], delegates.kind = nccl, lambda device: "NCCL"
        for sums, rest in ((1, 2), (1, 0)):
            group._start_coalescing(torch.device("cpu"))
            for _ in range(sums):
                group.allreduce([torch.ones(3)])
            for _ in range(rest):
                group.broadcast([torch.ones(3)])
            group._end_coalescing(torch.device("cpu")).wait()
        group.broadcast([torch.ones(3)]).wait()
        delegates._groups = kept
        del delegates.kind
    # What is lanesum's alone does not ask for it.
    assert nccl.said == ["start cpu", "broadcast", "broadcast", "end cpu", "broadcast"]


def test_nccl_coalesces_what_is_its(crew: Crew) -> None:
    crew.do(coalesced_by_nccl)


def functionals(rank: int, world: int, port: str) -> dict[str, Any]:
    with grouped(rank, world, port):
        group = dist.group.WORLD
        assert torch.equal(functional.all_reduce(mine(rank), "sum", group) + 0, mine(0) + mine(1))
        assert torch.equal(functional.all_reduce(mine(rank), "max", group) + 0, mine(1))
        assert torch.equal(functional.all_reduce(mine(rank), "avg", group) + 0, (mine(0) + mine(1)) / 2)
        summed = functional.all_reduce_coalesced([mine(rank), mine(rank, 3)], "sum", group)
        assert torch.equal(summed[1] + 0, mine(0, 3) + mine(1, 3))
        raw = torch.ops._c10d_functional.all_reduce(mine(rank), "sum", group.group_name)
        assert torch.equal(torch.ops._c10d_functional.wait_tensor(raw), mine(0) + mine(1))
        gathered = functional.all_gather_tensor(mine(rank), 0, group)
        assert torch.equal(gathered + 0, torch.cat([mine(0), mine(1)]))
        part = functional.reduce_scatter_tensor(mine(rank), "sum", 0, group)
        assert torch.equal(part + 0, (mine(0) + mine(1)).chunk(2)[rank])
        sent = functional.all_to_all_single(mine(rank), None, None, group)
        assert torch.equal(sent + 0, torch.cat([mine(0).chunk(2)[rank], mine(1).chunk(2)[rank]]))
        assert torch.equal(functional.broadcast(mine(rank), 1, group) + 0, mine(1))
        return lanesum.torch.counters()


def test_functional_collectives(crew: Crew) -> None:
    for counted in crew.do(functionals):
        assert counted["allreduce"]["lanesum"] == 3 and counted["allreduce_coalesced"] == {"lanesum": 2}


def subgroups(rank: int, world: int, port: str) -> None:
    with grouped(rank, world, port):
        alone = [dist.new_group([member]) for member in range(world)]
        both = dist.new_group([0, 1], timeout=timedelta(seconds=30))
        tensor = mine(rank)
        for _ in range(3):
            dist.all_reduce(tensor, group=alone[rank])
        assert torch.equal(tensor, mine(rank))
        # Of two groups at once, in another order on each rank.
        first, second = mine(rank), mine(rank, 4)
        calls = [(first, None), (second, both)]
        works = [dist.all_reduce(tensor, group=group, async_op=True) for tensor, group in (calls if rank else calls[::-1])]
        for work in works:
            work.wait()
        assert torch.equal(first, mine(0) + mine(1)) and torch.equal(second, mine(0, 4) + mine(1, 4))
        assert lanesum.torch.counters(both) == {"allreduce": {"lanesum": 1}}
        assert lanesum.torch.communicators(both)["cpu"].deadline == 30
        both.set_timeout(timedelta(seconds=20))
        assert lanesum.torch.communicators(both)["cpu"].deadline == 20
        dist.destroy_process_group(both)
        gloo = dist.new_group(backend="gloo")
        with pytest.raises(TypeError, match="hint"):
            lanesum.torch.counters(gloo)
        objects: list[Any] = [None] * 2
        dist.all_gather_object(objects, rank)
        assert objects == [0, 1]


def test_groups_of_a_group(crew: Crew) -> None:
    crew.do(subgroups)
