"""Every function of torch.distributed on the backend `lanesum`, beside Gloo."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lanesum
import pytest
from crew import Crew, free_port, grouped

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402


def mine(rank: int, size: int = 6) -> Any:
    return torch.arange(size, dtype=torch.float32) + 10 * rank


def others(world: int, size: int = 6) -> list[Any]:
    return [torch.zeros(size) for _ in range(world)]


def all_gather(group: Any, rank: int, world: int) -> Any:
    out = others(world)
    dist.all_gather(out, mine(rank), group=group)
    return out


def all_gather_coalesced(group: Any, rank: int, world: int) -> Any:
    out = [[torch.zeros(3), torch.zeros(4)] for _ in range(world)]
    dist.all_gather_coalesced(out, [mine(rank, 3), mine(rank, 4)], group=group)
    return [tensor for each in out for tensor in each]


def whole(name: str) -> Callable[..., Any]:
    def gathers(group: Any, rank: int, world: int) -> Any:
        out = torch.zeros(6 * world)
        getattr(dist, name)(out, mine(rank), group=group)
        return [out]

    return gathers


def scattered(name: str) -> Callable[..., Any]:
    def scatters(group: Any, rank: int, world: int) -> Any:
        out = torch.zeros(3)
        getattr(dist, name)(out, mine(rank, 3 * world), group=group)
        return [out]

    return scatters


def gathered(name: str) -> Callable[..., Any]:
    def gathers(group: Any, rank: int, world: int) -> Any:
        out = torch.zeros(6 * world)
        getattr(dist, name)(mine(rank), out if rank == 1 else None, dst=1, group=group)
        return [out]

    return gathers


def all_gather_object(group: Any, rank: int, world: int) -> Any:
    out: list[Any] = [None] * world
    dist.all_gather_object(out, {"rank": rank}, group=group)
    return out


def all_reduce(group: Any, rank: int, world: int) -> Any:
    tensor = mine(rank)
    dist.all_reduce(tensor, group=group)
    return [tensor]


def all_reduce_coalesced(group: Any, rank: int, world: int) -> Any:
    tensors = [mine(rank), mine(rank, 5)]
    dist.all_reduce_coalesced(tensors, group=group)
    return tensors


def all_to_all(group: Any, rank: int, world: int) -> Any:
    out = others(world, 3)
    dist.all_to_all(out, [mine(rank, 3) + peer for peer in range(world)], group=group)
    return out


def all_to_all_single(group: Any, rank: int, world: int) -> Any:
    out = torch.zeros(6)
    dist.all_to_all_single(out, mine(rank), group=group)
    return [out]


def barrier(group: Any, rank: int, world: int) -> Any:
    work = dist.barrier(group=group, async_op=True)
    return work.wait()


def monitored_barrier(group: Any, rank: int, world: int) -> Any:
    return dist.monitored_barrier(group, timeout=timedelta(seconds=20))


def batch_isend_irecv(group: Any, rank: int, world: int) -> Any:
    out, peer = torch.zeros(6), (rank + 1) % world
    asked = [dist.P2POp(dist.isend, mine(rank), peer, group), dist.P2POp(dist.irecv, out, peer, group)]
    for work in dist.batch_isend_irecv(asked):
        work.wait()
    return [out]


def broadcast(group: Any, rank: int, world: int) -> Any:
    tensor = mine(rank)
    dist.broadcast(tensor, 1, group=group)
    return [tensor]


def broadcast_object_list(group: Any, rank: int, world: int) -> Any:
    objects = ["one", rank]
    dist.broadcast_object_list(objects, 1, group=group)
    return objects


def gather(group: Any, rank: int, world: int) -> Any:
    out = others(world)
    dist.gather(mine(rank), out if rank == 1 else None, dst=1, group=group)
    return out


def gather_object(group: Any, rank: int, world: int) -> Any:
    out: list[Any] = [None] * world
    dist.gather_object(rank, out if rank == 0 else None, group=group)
    return out


def point_to_point(group: Any, rank: int, world: int) -> Any:
    """`send`, `recv`, `isend`, `irecv`, and those of objects."""
    out, objects = torch.zeros(6), ["an object", rank]
    if rank == 0:
        dist.send(mine(rank), 1, group=group, tag=3)
        dist.isend(mine(rank), 1, group=group).wait()
        dist.send_object_list(objects, 1, group=group)
        # From anyone.
        assert dist.recv(out, group=group) == 1
    elif rank == 1:
        dist.recv(out, 0, group=group, tag=3)
        dist.irecv(out, 0, group=group).wait()
        dist.recv_object_list(objects, 0, group=group)
        dist.send(mine(rank), 0, group=group)
    return [out, *objects]


def reduce(group: Any, rank: int, world: int) -> Any:
    tensor = mine(rank)
    dist.reduce(tensor, 1, group=group)
    return [tensor if rank == 1 else None]


def reduce_scatter(group: Any, rank: int, world: int) -> Any:
    out = torch.zeros(3)
    dist.reduce_scatter(out, [mine(rank, 3) * peer for peer in range(world)], group=group)
    return [out]


def scatter(group: Any, rank: int, world: int) -> Any:
    out = torch.zeros(3)
    dist.scatter(out, [mine(rank, 3) + peer for peer in range(world)] if rank == 1 else None, src=1, group=group)
    return [out]


def scatter_object_list(group: Any, rank: int, world: int) -> Any:
    out: list[Any] = [None]
    dist.scatter_object_list(out, [f"for {peer}" for peer in range(world)], src=0, group=group)
    return out


CALLS: dict[str, Callable[..., Any]] = {
    "all_gather": all_gather,
    "all_gather_coalesced": all_gather_coalesced,
    "all_gather_into_tensor": whole("all_gather_into_tensor"),
    "all_gather_object": all_gather_object,
    "all_gather_single": whole("all_gather_single"),
    "all_reduce": all_reduce,
    "all_reduce_coalesced": all_reduce_coalesced,
    "all_to_all": all_to_all,
    "all_to_all_single": all_to_all_single,
    "barrier": barrier,
    "batch_isend_irecv": batch_isend_irecv,
    "broadcast": broadcast,
    "broadcast_object_list": broadcast_object_list,
    "gather": gather,
    "gather_into_tensor": gathered("gather_into_tensor"),
    "gather_object": gather_object,
    "gather_single": gathered("gather_single"),
    "monitored_barrier": monitored_barrier,
    "reduce": reduce,
    "reduce_scatter": reduce_scatter,
    "reduce_scatter_single": scattered("reduce_scatter_single"),
    "reduce_scatter_tensor": scattered("reduce_scatter_tensor"),
    "scatter": scatter,
    "scatter_object_list": scatter_object_list,
    **dict.fromkeys(
        ("send", "recv", "isend", "irecv", "send_object_list", "recv_object_list"), point_to_point
    ),
}
# Functions of torch.distributed that are about groups, not between their ranks.
NO_CALLS = {"destroy_process_group", "init_process_group", "new_group", "new_subgroups", "new_subgroups_by_enumeration"}
NO_CALLS |= {"split_group", "shrink_group", "supports_complex", "record_comm", "set_timeout"}


# What Gloo, or torch for a group that is not called gloo, lacks in some of its versions.
LACKING = ("all_to_all:", "gather_into_tensor:", "gather_single:", "monitored_barrier:")


def functions() -> set[str]:
    """What torch.distributed has for ranks to call together."""
    names = {name for name in dist.distributed_c10d.__all__ if callable(getattr(dist, name, None))}
    kinds = {name for name in names if isinstance(getattr(dist, name), type) or name[0].isupper()}
    return {name for name in names - kinds - NO_CALLS if not name.startswith(("get_", "is_")) and name != "reduce_op"}


def test_every_function_of_torch_is_tried_and_documented() -> None:
    assert functions() <= CALLS.keys()
    page = (Path(__file__).parents[2] / "docs/torch.md").read_text()
    assert [name for name in CALLS if f"`{name}`" not in page] == []


def test_the_program_of_the_documentation_runs(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs/torch.md").read_text()
    (tmp_path / "program.py").write_text(text.split("```python\n")[1].split("```")[0])
    words = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(free_port())]
    told = subprocess.run([*words, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=90, check=False)
    assert told.returncode == 0, told.stderr
    # What the ranks say may be mixed within a line.
    assert told.stdout.count("{'allreduce': {'lanesum': 1}}") == 2 and told.stdout.count("3.0") == 2, told.stdout


def outcome(call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except Exception as error:
        return type(error).__name__, str(error)


def alike(first: Any, second: Any) -> bool:
    if isinstance(first, torch.Tensor):
        return bool(torch.equal(first, second))
    if isinstance(first, list):
        return len(first) == len(second) and all(map(alike, first, second))
    return bool(first == second)


def beside_gloo(rank: int, world: int, port: str, names: list[str]) -> list[str]:
    raised = []
    with grouped(rank, world, port):
        gloo = dist.new_group(backend="gloo")
        for name in names:
            ours = outcome(CALLS[name], None, rank, world)
            theirs = outcome(CALLS[name], gloo, rank, world)
            # Older versions of torch ask for this one by the name of the backend.
            by_name = isinstance(ours, tuple) and "only implemented for GLOO" in ours[1]
            assert by_name or alike(ours, theirs), (name, ours, theirs)
            if isinstance(ours, tuple):
                raised.append(f"{name}: {ours}")
    return raised


def test_every_function_does_what_gloos_does(crew: Crew) -> None:
    names = sorted(functions() & CALLS.keys())
    for raised in crew.do(beside_gloo, names):
        assert all(line.startswith(LACKING) for line in raised), raised


def all_or_none(rank: int, world: int, port: str) -> None:
    with grouped(rank, world, port):
        good, gaps = torch.ones(3), torch.ones(8)[::2]
        with pytest.raises(lanesum.TensorError):
            dist.group.WORLD.allreduce_coalesced([good, gaps])
        assert good.tolist() == [1.0] * 3
        # One order of the elements, though dimensions of one element have other strides.
        whole = torch.arange(6.0).reshape(3, 2)
        turned = whole.t()[None] if rank else whole[None].transpose(1, 2)
        assert turned.stride()[1:] == (1, 2)
        dist.all_reduce(turned)
        assert whole.tolist() == [[0, 2], [4, 6], [8, 10]]
        if rank == 1:
            time.sleep(3)
        work = dist.group.WORLD.allreduce_coalesced([torch.ones(3) for _ in range(4)])
        if rank == 0:
            started = time.monotonic()
            with pytest.raises(lanesum.LateError):
                work.wait(timedelta(seconds=1))
            assert time.monotonic() - started < 2
        work.wait()


def test_several_tensors_are_one_call(crew: Crew) -> None:
    crew.do(all_or_none)
