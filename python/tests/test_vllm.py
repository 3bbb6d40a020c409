"""The plug-in for vLLM in vLLM's own code: its group coordinator, its dispatch, its custom all-reduce. Skipped without vLLM.

There is no GPU: groups are of gloo, tensors in host memory, and NCCL is switched off, so that vLLM falls back to its group.
`cargo xtask engines` runs this with the version of vLLM that the plug-in knows.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any
from unittest import mock

import lanesum
import pytest
import ranks
from engines import Lines, addresses, group_of

if find_spec("vllm") is None:
    pytest.skip("vLLM is not installed; `cargo xtask engines` installs it", allow_module_level=True)


def communicator(rank: int, world: int, address: str, lines: Lines) -> Any:
    """vLLM's own communicator of a tensor-parallel group, made by its own coordinator."""
    from lanesum.engines import vllm as plugin
    from vllm.distributed import parallel_state
    from vllm.distributed.device_communicators import pynccl
    from vllm.platforms import current_platform

    lines.listen("vllm.plugins.lanesum")
    plugin.register()
    group_of(rank, world, address)
    wanted = "vllm.distributed.device_communicators.cuda_communicator.CudaCommunicator"
    with (
        mock.patch.object(type(current_platform), "get_device_communicator_cls", classmethod(lambda cls: wanted)),
        mock.patch.object(pynccl, "PyNcclCommunicator", lambda **_: None),
    ):
        coordinator = parallel_state.GroupCoordinator(
            [list(range(world))], rank, "gloo", use_device_communicator=True, group_name="tp"
        )
    return coordinator


def summed(rank: int, world: int, name: str, address: str) -> Any:
    import torch

    lines = Lines()
    group = communicator(rank, world, address, lines)
    ours = group.device_communicator.ca_comm
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        tensor = torch.full((3, 7168), rank + 1.0, dtype=dtype)
        out = group.all_reduce(tensor)
        assert bool((out == world * (world + 1) / 2).all()) and bool((tensor == rank + 1).all())
        assert out.shape == tensor.shape and out.dtype == dtype
    calls = ours.communicator.counters()["calls"]
    ints = group.all_reduce(torch.full((5,), rank + 1))
    assert ints.tolist() == [world * (world + 1) // 2] * 5 and ours.communicator.counters()["calls"] == calls
    return calls, lines.all


@pytest.mark.parametrize("world", [2, 3])
def test_vllms_dispatch_reaches_lanesum(world: int) -> None:
    results = ranks.succeeded(ranks.run(world, summed, addresses()))
    assert [calls for calls, _ in results] == [3] * world
    lines = [lines for _, lines in results]
    assert len(lines[0]) == 1 and f"{world} ranks of vLLM: float32, float16, bfloat16 of every length" in lines[0][0]
    assert not any(lines[1:])
