"""What engines do with lanesum's object, on real GPUs, without the engines: set-up, warm-up, capture, replay, faults, close.

Skipped where torch sees no GPU. Ranks share GPUs where there are fewer. The plug-ins' own patches are tested by test_vllm.py and
test_sglang.py, where the engines are installed.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from typing import Any

import lanesum
import pytest
import ranks
from engines import Lines, addresses, group_of
from lanesum.engines._adapter import AllReduce, check_all
from lanesum.engines._join import Engine, join

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("torch sees no GPU", allow_module_level=True)

HIDDEN = 7168
LOG = logging.getLogger("lanesum.tests")


def joined(
    rank: int, world: int, address: str, against: str | None = None, policy: str = "exact"
) -> tuple[AllReduce | None, list[str]]:
    """As an engine's rank comes to it: a group of gloo, and the GPU as a device of torch."""
    os.environ["LANESUM_POLICY"] = policy
    lines = Lines()
    lines.listen("lanesum.tests")
    index = rank % torch.cuda.device_count()
    torch.cuda.set_device(index)
    group = group_of(rank, world, address)
    return join(group, torch.device("cuda", index), Engine("the test", against, None), LOG), lines.all


def tokens(rank: int, count: int, dtype: Any = torch.bfloat16) -> Any:
    return torch.full((count, HIDDEN), rank + 1.0, dtype=dtype, device="cuda")


@torch.inference_mode()
def eager(rank: int, world: int, name: str, address: str) -> int:
    ours, lines = joined(rank, world, address)
    assert ours is not None and not ours.disabled and ours.world_size == world
    assert len(lines) == (rank == 0)
    total = world * (world + 1) // 2
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        for count in (1, 3, 16, 257):
            tensor = tokens(rank, count, dtype)
            assert ours.should_custom_ar(tensor)
            out = ours.custom_all_reduce(tensor)
            assert out.shape == tensor.shape and out.dtype == dtype and out.data_ptr() != tensor.data_ptr()
            assert bool((out == total).all()) and bool((tensor == rank + 1).all())
    for other in (tokens(rank, 3).t(), tokens(rank, 1).double(), tokens(rank, 1).int()):
        assert not ours.should_custom_ar(other)
        # An engine that calls without having asked gets an error, and no tensor that nobody wrote.
        with pytest.raises(lanesum.TensorError):
            ours.custom_all_reduce(other)
    assert ours.custom_all_gather(tokens(rank, 1)) is None and ours.custom_reduce_scatter(tokens(rank, 1)) is None
    ours.close()
    assert ours.disabled and not ours.should_custom_ar(tokens(rank, 1))
    return 0


@pytest.mark.parametrize("world", [2, 3, 8])
def test_eager_calls(world: int) -> None:
    ranks.succeeded(ranks.run(world, eager, addresses()))


def layers(ours: AllReduce, tensor: Any, count: int = 8) -> Any:
    """A model's step: a sum behind each layer, each of which is left of the last."""
    for _ in range(count):
        assert ours.should_custom_ar(tensor)
        tensor = ours.custom_all_reduce(tensor) / ours.world_size
    return tensor


@torch.inference_mode()
def captured(rank: int, world: int, name: str, address: str) -> int:
    ours, _ = joined(rank, world, address)
    assert ours is not None
    stream, pool, graphs = torch.cuda.Stream(), torch.cuda.graph_pool_handle(), {}
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream), ours.capture():
        # As engines do: from the largest batch down, each warmed up first, all graphs in one pool.
        for count in (16, 4, 1):
            tensor = tokens(rank, count)
            warm = layers(ours, tensor)
            assert warm.shape == tensor.shape and bool((warm == (world + 1) / 2).all())
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool, stream=stream):
                out = layers(ours, tensor)
            graphs[count] = graph, tensor, out
    torch.cuda.synchronize()
    for turn in range(5):
        for count, (graph, tensor, out) in graphs.items():
            tensor.fill_(float(rank + turn))
            graph.replay()
            # Prefill comes between, eagerly.
            prefill = ours.custom_all_reduce(tokens(rank, 100 + count))
            torch.cuda.synchronize()
            check_all()
            assert bool((out == (world - 1) / 2 + turn).all()), (turn, count)
            assert bool((prefill == world * (world + 1) // 2).all())
    ours.close()
    return 0


@pytest.mark.parametrize("world", [2, 3])
def test_graphs_as_engines_capture_them(world: int) -> None:
    ranks.succeeded(ranks.run(world, captured, addresses()))


def shared(rank: int, world: int, name: str, address: str) -> dict[str, int]:
    ours, _ = joined(rank, world, address, policy="fastest")
    assert ours is not None
    limits = {}
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        taken = [ours.should_custom_ar(torch.empty(1 << shift, dtype=dtype, device="cuda")) for shift in range(0, 28)]
        # One crossing: from it on the engine has all.
        assert taken == sorted(taken, reverse=True)
        limits[str(dtype)] = sum(taken)
    ours.close()
    return limits


def test_all_ranks_leave_the_same_lengths_to_nccl() -> None:
    first, *others = ranks.succeeded(ranks.run(3, shared, addresses()))
    assert others == [first] * 2


@torch.inference_mode()
def lost(rank: int, world: int, name: str, address: str) -> Any:
    ours, _ = joined(rank, world, address)
    assert ours is not None
    tensor, graph = tokens(rank, 4), torch.cuda.CUDAGraph()
    with ours.capture():
        layers(ours, tensor)
        with torch.cuda.graph(graph):
            layers(ours, tensor)
    graph.replay()
    torch.cuda.synchronize()
    ours.communicator.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    started = time.monotonic()
    graph.replay()
    torch.cuda.synchronize()
    with pytest.raises(lanesum.FaultError) as told:
        while time.monotonic() - started < 60:
            check_all()
    assert time.monotonic() - started < 20
    with pytest.raises(lanesum.Error):
        ours.custom_all_reduce(tensor)
    return told.value


def test_a_rank_that_ends_is_named_after_the_step() -> None:
    (error,) = ranks.succeeded(ranks.run(2, lost, addresses())[:1])
    assert error.ranks == (1,)


def refused(rank: int, world: int, name: str, address: str) -> list[str]:
    ours, lines = joined(rank, world, address, "there is a reason" if rank == 1 else None)
    assert ours is None
    return lines


def test_all_stay_out_where_one_must() -> None:
    lines = ranks.succeeded(ranks.run(2, refused, addresses()))
    assert len(lines[0]) == 1 and "rank 1: there is a reason" in lines[0][0] and not lines[1]
