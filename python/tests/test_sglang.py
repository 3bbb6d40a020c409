"""The plug-in for SGLang in SGLang's own code: its plug-in loader, its hooks, its group coordinator, its dispatch. Skipped without
SGLang.

There is no GPU: groups are of gloo, tensors in host memory, and NCCL is left out, so that SGLang falls back to its group.
`cargo xtask engines` runs this with the version of SGLang that the plug-in knows.
"""

from __future__ import annotations

import logging
import os
import weakref
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest import mock

import engines_check
import pytest
import ranks
from engines import Lines, Taker, addresses, entry_point, fails_on, group_of, one_line

if find_spec("sglang") is None:
    pytest.skip("SGLang is not installed; `cargo xtask engines` installs it", allow_module_level=True)

LOG = "sglang.srt.plugins.lanesum"
PLUGINS = "sglang.srt.plugins"


def load() -> None:
    """Lets SGLang's own loader load the plug-in that the package declares, and apply its hooks."""
    import sglang.srt.plugins as plugins

    plugins._plugins_loaded = False
    found = {"lanesum": (entry_point(PLUGINS), "lanesum")}
    with mock.patch.object(plugins, "load_plugins_by_group", return_value=found):
        plugins.load_plugins()


def ops_on_cpus() -> Any:
    """SGLang's own operators, which it registers for GPUs alone, for host memory too; they last as long as what is returned."""
    import torch
    from sglang.srt.distributed import parallel_state

    library = torch.library.Library("sglang", "FRAGMENT")

    def out_of_place(tensor: Any, group_name: str, outplace_all_reduce_method: str) -> Any:
        return parallel_state._groups[group_name]()._all_reduce_out_place(tensor, outplace_all_reduce_method)

    def in_place(tensor: Any, group_name: str) -> None:
        parallel_state._groups[group_name]()._all_reduce_in_place(tensor)

    library.impl("outplace_all_reduce", out_of_place, "CPU")
    library.impl("inplace_all_reduce", in_place, "CPU")
    return library


def started(rank: int, world: int, address: str) -> Lines:
    lines = Lines()
    lines.listen(LOG)
    load()
    load()
    group_of(rank, world, address)
    lines.kept = ops_on_cpus()
    return lines


def coordinator(rank: int, world: int, gpus: bool = True, custom: bool = True) -> Any:
    """SGLang's own coordinator of a tensor-parallel group, on what passes for a platform of GPUs."""
    from lanesum.engines import sglang as plugin
    from sglang.srt.distributed import parallel_state

    platform = plugin._platform_against
    with mock.patch.object(plugin, "_platform_against", (lambda: None) if gpus else platform):
        return parallel_state.GroupCoordinator(
            group_ranks=[list(range(world))],
            local_rank=rank,
            torch_distributed_backend="gloo",
            use_pynccl=False,
            use_mscclpp=False,
            use_custom_allreduce=custom,
            use_torch_symm_mem_all_reduce=False,
            use_hpu_communicator=False,
            use_xpu_communicator=False,
            group_name="tp",
        )


def on_gpu(tensor: Any) -> Any:
    """A tensor that says it is in a GPU's memory: SGLang sums host memory before it asks any library."""
    import torch

    class Elsewhere(torch.Tensor):
        is_cpu = False

    return tensor.as_subclass(Elsewhere)


def sums(rank: int, world: int, name: str, address: str) -> Any:
    import torch

    lines = started(rank, world, address)
    group = coordinator(rank, world)
    ours, total = group.ca_comm, world * (world + 1) // 2
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        tensor = on_gpu(torch.full((3, 7168), rank + 1.0, dtype=dtype))
        out = group.all_reduce(tensor)
        assert bool((out == total).all()) and bool((tensor == rank + 1).all())
        assert out.shape == tensor.shape and out.dtype == dtype
    calls = ours.communicator.counters()["calls"]
    for other in (torch.full((4, 5), rank + 1), torch.full((4, 5), rank + 1.0).t()):
        out = group.all_reduce(on_gpu(other.clone()))
        assert bool((out == total).all()) and ours.communicator.counters()["calls"] == calls
    return calls, lines.all


def test_three_ranks_which_sglang_never_serves() -> None:
    results = ranks.succeeded(ranks.run(3, sums, addresses()))
    assert [calls for calls, _ in results] == [3] * 3
    lines = [lines for _, lines in results]
    assert len(lines[0]) == 1 and not any(lines[1:])
    assert "a group of 3 ranks of SGLang: float32, float16, bfloat16 of every length (policy fastest, the default)" in lines[0][0]


def all_cases(rank: int, world: int, name: str, address: str) -> dict[str, Any]:
    """All that two ranks can show, in one pair of processes, since SGLang takes its time to be imported."""
    import torch

    lines, told = started(rank, world, address), dict[str, Any]()
    cases = (shares_lengths, comes_first, is_opaque, warms_up, is_off_on_one, fails_on_one, differs, has_no_gpus, is_deterministic)
    for case in (*cases, is_misspelled, is_disabled, is_lost):
        lines.all.clear()
        with torch.inference_mode(), mock.patch.dict(os.environ):
            told[case.__name__] = case(rank, world), list(lines.all)
    return told


def shares_lengths(rank: int, world: int) -> Any:
    import torch

    # Predictions that differ, as they must not: the least counts on all ranks.
    limits = dict.fromkeys(("float32", "float16", "bfloat16"), 4096 * (rank + 1))
    with mock.patch("lanesum.engines._join._limits", lambda *_: limits):
        group = coordinator(rank, world)
    counts = []
    for bytes_ in (0, 4, 4092, 4096, 8192):
        out = group.all_reduce(on_gpu(torch.full((bytes_ // 4,), rank + 1.0)))
        assert bool((out == 3).all())
        counts.append(group.ca_comm.communicator.counters()["calls"])
    kept = weakref.ref(group.ca_comm)
    group.destroy()
    assert kept() is None
    return counts


def comes_first(rank: int, world: int) -> Any:
    import torch

    group = coordinator(rank, world)
    group.pcie_ipc_comm = group.qr_comm = group.pymscclpp_comm = group.torch_symm_mem_comm = Taker()
    group._fi_workspace_hint = "tp"
    with mock.patch("sglang.srt.layers.flashinfer_comm_fusion.can_use_flashinfer_allreduce", lambda *_, **__: False):
        theirs = group.all_reduce(on_gpu(torch.ones(8, dtype=torch.float64)))
    with mock.patch("sglang.srt.layers.flashinfer_comm_fusion.can_use_flashinfer_allreduce", lambda *_, **__: True):
        ours = group.all_reduce(on_gpu(torch.ones(8)))
    return ours[0].item(), theirs[0].item()


def is_opaque(rank: int, world: int) -> Any:
    """What a compiler leaves for run time, `auto`, asks the plan then."""
    import torch
    from sglang.srt.distributed import parallel_state

    group = coordinator(rank, world)

    def step(tensor: Any) -> Any:
        doubled = tensor * 2
        return parallel_state.outplace_all_reduce(doubled, group.unique_name, outplace_all_reduce_method="auto") + 1

    compiled = torch.compile(step, fullgraph=True, backend="eager")
    return [compiled(torch.full((length,), rank + 1.0)).tolist() for length in (1, 3)]


def warms_up(rank: int, world: int) -> Any:
    """SGLang's own context of captures around a call that is none: its custom all-reduce would return zeros."""
    import torch
    from sglang.srt.distributed import parallel_state

    group, stream = coordinator(rank, world), mock.Mock()
    group.device_module = mock.MagicMock()
    with mock.patch.object(parallel_state, "get_current_device_stream_fast", return_value=stream):
        with group.graph_capture(stream=stream):
            return group.all_reduce(on_gpu(torch.full((2, 3), rank + 1.0))).tolist()


def is_off_on_one(rank: int, world: int) -> Any:
    os.environ["LANESUM"] = "0" if rank == 1 else "1"
    return kind(coordinator(rank, world), rank)


def fails_on_one(rank: int, world: int) -> Any:
    with fails_on(rank == 1):
        return kind(coordinator(rank, world), rank)


def differs(rank: int, world: int) -> Any:
    os.environ["LANESUM_POLICY"] = ("exact", "fastest")[rank]
    return kind(coordinator(rank, world), rank)


def has_no_gpus(rank: int, world: int) -> Any:
    return kind(coordinator(rank, world, gpus=False), rank)


def kind(group: Any, rank: int) -> Any:
    """What sums where lanesum stays out: SGLang has no custom all-reduce without GPUs, and then its group does."""
    import torch

    out = group.all_reduce(on_gpu(torch.full((5,), rank + 1.0)))
    return group.ca_comm, out.tolist()


def is_deterministic(rank: int, world: int) -> Any:
    os.environ["SGLANG_ENABLE_DETERMINISTIC_INFERENCE"] = "1"
    return coordinator(rank, world).ca_comm.max_size > 1 << 60


def is_misspelled(rank: int, world: int) -> Any:
    """SGLang goes on when a plug-in or a custom all-reduce fails, so this has to end its group."""
    import lanesum

    os.environ["LANESUM_POLICY"] = "fast"
    with pytest.raises(lanesum.EnvironmentVariableError, match="LANESUM_POLICY"):
        coordinator(rank, world)


def is_disabled(rank: int, world: int) -> Any:
    return coordinator(rank, world, custom=False).ca_comm


def is_lost(rank: int, world: int) -> Any:
    """A rank leaves; the other's step, of SGLang's own model runner, raises."""
    import lanesum
    import sglang.srt.model_executor.model_runner as runner
    import torch

    def forward(
        self: Any,
        forward_batch: Any,
        skip_attn_backend_init: Any = None,
        pp_proxy_tensors: Any = None,
        reinit_attn_backend: bool = False,
        split_forward_count: int = 1,
    ) -> Any:
        return forward_batch

    runner.ModelRunner.forward = forward
    group = coordinator(rank, world)
    group.all_reduce(on_gpu(torch.ones(3)))
    step = runner.ModelRunner.forward
    assert step is not forward and step(None, "batch") == "batch"
    if rank == 1:
        group.ca_comm.close()
        return None
    with pytest.raises(lanesum.RankLostError) as lost:
        group.all_reduce(on_gpu(torch.ones(3)))
    with mock.patch.object(lanesum.engines._adapter.AllReduce, "check", side_effect=lost.value):
        with pytest.raises(lanesum.RankLostError):
            step(None, "batch")
    return lost.value.ranks


@pytest.fixture(scope="module")
def told() -> list[dict[str, Any]]:
    return ranks.succeeded(ranks.run(2, all_cases, addresses()))


def test_longer_messages_are_sglangs_on_all_ranks_alike(told: list[dict[str, Any]]) -> None:
    counts, line = one_line(told, "shares_lengths")
    assert counts == [1, 2, 3, 3, 3]
    assert "of less than 4096 B" in line and "longer ones are left to SGLang and NCCL" in line and "LANESUM=0" in line


def test_lanesum_has_the_first_say_and_no_other(told: list[dict[str, Any]]) -> None:
    (ours, theirs), _ = one_line(told, "comes_first")
    assert ours == 2.0 and theirs == Taker.MARK


def test_a_compiler_sees_one_call(told: list[dict[str, Any]]) -> None:
    assert one_line(told, "is_opaque")[0] == [[7.0], [7.0] * 3]


def test_a_warm_up_has_a_sum(told: list[dict[str, Any]]) -> None:
    assert one_line(told, "warms_up")[0] == [[3.0] * 3] * 2


@pytest.mark.parametrize(
    ("case", "why"),
    [
        ("is_off_on_one", "rank 1: LANESUM turns it off"),
        ("fails_on_one", "rank 1: OSError: no such luck"),
        ("differs", "different policies: exact, fastest"),
        ("has_no_gpus", "this is another platform"),
    ],
)
def test_all_ranks_stay_out_where_one_must(told: list[dict[str, Any]], case: str, why: str) -> None:
    (own, out), line = one_line(told, case)
    assert own is None and out == [3.0] * 5
    assert why in line and "SGLang sums as without lanesum" in line


def test_determinism_needs_one_library_for_all_lengths(told: list[dict[str, Any]]) -> None:
    whole, line = one_line(told, "is_deterministic")
    assert whole and "policy exact, because of --enable-deterministic-inference" in line


def test_the_users_own_switch_is_heeded(told: list[dict[str, Any]]) -> None:
    own, line = one_line(told, "is_disabled")
    assert own is None and "--disable-custom-all-reduce is set" in line


def test_a_lost_rank_ends_the_step(told: list[dict[str, Any]]) -> None:
    assert told[0]["is_lost"][0] == (1,)


def at_load(rank: int, world: int, name: str) -> dict[str, Any]:
    """What a process says and does when SGLang loads its plug-ins: all that leaves SGLang as it is, and then what does not."""
    from sglang.srt.distributed import parallel_state
    from sglang.srt.plugins.hook_registry import HookRegistry

    def loaded() -> tuple[list[str], int]:
        lines.all.clear()
        load()
        return list(lines.all), len(HookRegistry._patched)

    lines, told = Lines(), dict[str, Any]()
    lines.listen(LOG)
    # A rank is a child, and only the first process of a server speaks.
    with mock.patch("multiprocessing.parent_process", return_value=None):
        with mock.patch("importlib.metadata.version", return_value="0.5.24"):
            told["version"] = loaded()
        with mock.patch.object(parallel_state.GroupCoordinator, "all_reduce", lambda self, tensor: tensor):
            told["signature"] = loaded()
        with mock.patch.dict(os.environ, {"LANESUM": "0"}):
            told["off"] = loaded()
        told["quiet"] = loaded()
    return told


def test_what_it_does_when_it_is_loaded() -> None:
    (told,) = ranks.succeeded(ranks.run(1, at_load))
    for case, words in {
        "version": "knows SGLang 0.5.23 and found 0.5.24",
        "signature": "GroupCoordinator.all_reduce(self, input_) of SGLang and found (self, tensor)",
    }.items():
        lines, hooks = told[case]
        assert len(lines) == 1 and "lanesum stays out of SGLang" in lines[0] and words in lines[0] and not hooks, case
    assert len(told["off"][0]) == 1 and "turns lanesum off" in told["off"][0][0]
    assert told["quiet"] == ([], 4)


def test_its_sources_are_as_the_list_says() -> None:
    spec = find_spec("sglang")
    assert spec and spec.origin
    needs = engines_check.NEEDS["sglang"]
    assert list(engines_check.differences(needs, Path(spec.origin).parents[1])) == []


def test_the_line_is_seen_as_sglang_logs() -> None:
    # SGLang sets the root's level and format; nothing between may hide the line.
    assert logging.getLogger(LOG).getEffectiveLevel() == logging.getLogger().getEffectiveLevel()
