"""The plug-in for SGLang in SGLang's own code: its hooks, its group coordinator, its dispatch. Skipped without SGLang.

There is no GPU: groups are of gloo, tensors in host memory. SGLang sums these before it asks any library, so they are given to
what it does behind that. `cargo xtask engines` runs this with the version of SGLang that the plug-in knows.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any
from unittest import mock

import pytest
import ranks
from engines import Lines, addresses, group_of

if find_spec("sglang") is None:
    pytest.skip("SGLang is not installed; `cargo xtask engines` installs it", allow_module_level=True)


def coordinator(rank: int, world: int, address: str, lines: Lines) -> Any:
    from lanesum.engines import sglang as plugin
    from sglang.srt.distributed import parallel_state
    from sglang.srt.plugins.hook_registry import HookRegistry

    lines.listen("sglang.srt.plugins.lanesum")
    plugin.register()
    HookRegistry.apply_hooks()
    group_of(rank, world, address)
    with mock.patch.object(plugin, "_platform_against", lambda: None):
        return parallel_state.GroupCoordinator(
            group_ranks=[list(range(world))],
            local_rank=rank,
            torch_distributed_backend="gloo",
            use_pynccl=False,
            use_mscclpp=False,
            use_custom_allreduce=True,
            use_torch_symm_mem_all_reduce=False,
            use_hpu_communicator=False,
            use_xpu_communicator=False,
            group_name="tp",
        )


def summed(rank: int, world: int, name: str, address: str) -> Any:
    import torch

    lines = Lines()
    group = coordinator(rank, world, address, lines)
    ours = group.ca_comm
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        tensor = torch.full((3, 7168), rank + 1.0, dtype=dtype)
        assert group._resolve_outplace_all_reduce_method(tensor) == "ca"
        out = group._all_reduce_out_place(tensor, "auto")
        assert bool((out == world * (world + 1) / 2).all()) and bool((tensor == rank + 1).all())
        assert out.shape == tensor.shape and out.dtype == dtype
    calls = ours.communicator.counters()["calls"]
    ints = group._all_reduce_out_place(torch.full((5,), rank + 1), "auto")
    assert ints.tolist() == [world * (world + 1) // 2] * 5 and ours.communicator.counters()["calls"] == calls
    return calls, lines.all


@pytest.mark.parametrize("world", [2])
def test_sglangs_dispatch_reaches_lanesum(world: int) -> None:
    results = ranks.succeeded(ranks.run(world, summed, addresses()))
    assert [calls for calls, _ in results] == [3] * world
    lines = [lines for _, lines in results]
    assert len(lines[0]) == 1 and f"{world} ranks of SGLang: float32, float16, bfloat16 of every length" in lines[0][0]
    assert not any(lines[1:])
