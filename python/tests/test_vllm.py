"""The plug-in for vLLM in vLLM's own code: its group coordinator, its dispatch, its custom all-reduce. Skipped without vLLM.

There is no GPU: groups are of gloo, tensors in host memory, and NCCL is left out, so that vLLM falls back to its group.
`cargo xtask engines` runs this with the version of vLLM that the plug-in knows.
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

if find_spec("vllm") is None:
    pytest.skip("vLLM is not installed; `cargo xtask engines` installs it", allow_module_level=True)

LOG = "vllm.plugins.lanesum"
CUDA = "vllm.distributed.device_communicators.cuda_communicator"


def coordinator(rank: int, world: int) -> Any:
    """vLLM's own coordinator of a tensor-parallel group, with its own communicator for GPUs."""
    from vllm.distributed import parallel_state
    from vllm.distributed.device_communicators import pynccl
    from vllm.platforms import current_platform

    wanted = classmethod(lambda cls: f"{CUDA}.CudaCommunicator")
    with (
        mock.patch.object(type(current_platform), "get_device_communicator_cls", wanted),
        mock.patch.object(pynccl, "PyNcclCommunicator", lambda **_: None),
    ):
        return parallel_state.GroupCoordinator(
            [list(range(world))], rank, "gloo", use_device_communicator=True, group_name="tp"
        )


def started(rank: int, world: int, address: str) -> Lines:
    """A rank whose vLLM has loaded the plug-in, as its entry point says, twice as vLLM may."""
    lines = Lines()
    lines.listen(LOG)
    register = entry_point("vllm.general_plugins")
    register()
    register()
    group_of(rank, world, address)
    return lines


def sums(rank: int, world: int, name: str, address: str) -> Any:
    import torch

    lines = started(rank, world, address)
    group = coordinator(rank, world)
    ours, total = group.device_communicator.ca_comm, world * (world + 1) // 2
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        tensor = torch.full((3, 7168), rank + 1.0, dtype=dtype)
        out = group.all_reduce(tensor)
        assert bool((out == total).all()) and bool((tensor == rank + 1).all())
        assert out.shape == tensor.shape and out.dtype == dtype
    calls = ours.communicator.counters()["calls"]
    for other in (torch.full((4, 5), rank + 1), torch.full((4, 5), rank + 1.0).t()):
        assert bool((group.all_reduce(other) == total).all()) and ours.communicator.counters()["calls"] == calls
    return calls, lines.all


def test_three_ranks_which_vllm_never_serves() -> None:
    results = ranks.succeeded(ranks.run(3, sums, addresses()))
    assert [calls for calls, _ in results] == [3] * 3
    lines = [lines for _, lines in results]
    assert len(lines[0]) == 1 and not any(lines[1:])
    assert "a group of 3 ranks of vLLM: float32, float16, bfloat16 of every length (policy fastest, the default)" in lines[0][0]


def all_cases(rank: int, world: int, name: str, address: str) -> dict[str, Any]:
    """All that two ranks can show, in one pair of processes, since vLLM takes its time to be imported."""
    import torch

    lines, told = started(rank, world, address), dict[str, Any]()
    for case in (shares_lengths, comes_first, is_opaque, warms_up, is_off_on_one, fails_on_one, differs, is_invariant, is_disabled, is_lost):
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
        out = group.all_reduce(torch.full((bytes_ // 4,), rank + 1.0))
        assert bool((out == 3).all())
        counts.append(group.device_communicator.ca_comm.communicator.counters()["calls"])
    kept = weakref.ref(group.device_communicator.ca_comm)
    group.destroy()
    assert kept() is None
    return counts


def comes_first(rank: int, world: int) -> Any:
    import torch

    group = coordinator(rank, world)
    communicator = group.device_communicator
    communicator.fi_pcie_ipc_ar_comm = communicator.fi_ar_comm = communicator.qr_comm = Taker()
    out = [group.all_reduce(torch.ones(8)), group.all_reduce(torch.ones(8, dtype=torch.float64))]
    return [each[0].item() for each in out]


def is_opaque(rank: int, world: int) -> Any:
    import torch

    group = coordinator(rank, world)
    group.use_custom_op_call = True
    step = torch.compile(lambda tensor: group.all_reduce(tensor * 2) + 1, fullgraph=True, backend="eager")
    return [step(torch.full((length,), rank + 1.0)).tolist() for length in (1, 3)]


def warms_up(rank: int, world: int) -> Any:
    """vLLM's own context of captures around a call that is none: its custom all-reduce would return what nobody has written."""
    import torch
    from vllm.distributed import parallel_state

    group, stream = coordinator(rank, world), mock.Mock()
    with mock.patch("torch.cuda.current_stream", return_value=stream), mock.patch("torch.cuda.stream"):
        with group.graph_capture(parallel_state.GraphCaptureContext(stream)):
            return group.all_reduce(torch.full((2, 3), rank + 1.0)).tolist()


def is_off_on_one(rank: int, world: int) -> Any:
    os.environ["LANESUM"] = "0" if rank == 1 else "1"
    return kind(coordinator(rank, world), rank)


def fails_on_one(rank: int, world: int) -> Any:
    with fails_on(rank == 1):
        return kind(coordinator(rank, world), rank)


def differs(rank: int, world: int) -> Any:
    os.environ["LANESUM_POLICY"] = ("exact", "fastest")[rank]
    return kind(coordinator(rank, world), rank)


def kind(group: Any, rank: int) -> Any:
    """What sums where lanesum stays out: vLLM's own object, which is disabled without GPUs, and then its group."""
    import torch

    out = group.all_reduce(torch.full((5,), rank + 1.0))
    own = group.device_communicator.ca_comm
    return type(own).__module__, own.disabled, out.tolist()


def is_invariant(rank: int, world: int) -> Any:
    os.environ["VLLM_BATCH_INVARIANT"] = "1"
    return coordinator(rank, world).device_communicator.ca_comm.max_size > 1 << 60


def is_disabled(rank: int, world: int) -> Any:
    with mock.patch("vllm.distributed.parallel_state._ENABLE_CUSTOM_ALL_REDUCE", False):
        return coordinator(rank, world).device_communicator.ca_comm


def is_lost(rank: int, world: int) -> Any:
    """A rank leaves; the other's step, of vLLM's own worker, raises."""
    import lanesum
    import torch
    import vllm.v1.worker.gpu_worker as worker

    def execute_model(self: Any, scheduler_output: Any) -> str:
        return str(scheduler_output)

    worker.Worker.execute_model = execute_model
    group = coordinator(rank, world)
    group.all_reduce(torch.ones(3))
    step = worker.Worker.execute_model
    assert step is not execute_model and step(None, "scheduled") == "scheduled"
    if rank == 1:
        group.device_communicator.ca_comm.close()
        return None
    with pytest.raises(lanesum.RankLostError) as lost:
        group.all_reduce(torch.ones(3))
    with pytest.raises(lanesum.PoisonedError):
        group.all_reduce(torch.ones(3))
    with mock.patch.object(lanesum.engines._adapter.AllReduce, "check", side_effect=lost.value):
        with pytest.raises(lanesum.RankLostError):
            step(None, "scheduled")
    return lost.value.ranks


@pytest.fixture(scope="module")
def told() -> list[dict[str, Any]]:
    return ranks.succeeded(ranks.run(2, all_cases, addresses()))


def test_longer_messages_are_vllms_on_all_ranks_alike(told: list[dict[str, Any]]) -> None:
    counts, line = one_line(told, "shares_lengths")
    assert counts == [1, 2, 3, 3, 3]
    assert "of less than 4096 B" in line and "longer ones are left to vLLM and NCCL" in line and "LANESUM=0" in line


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
    ],
)
def test_all_ranks_stay_out_where_one_must(told: list[dict[str, Any]], case: str, why: str) -> None:
    (module, disabled, out), line = one_line(told, case)
    assert module.startswith("vllm.") and disabled and out == [3.0] * 5
    assert why in line and "vLLM sums as without lanesum" in line


def test_batch_invariance_needs_one_library_for_all_lengths(told: list[dict[str, Any]]) -> None:
    whole, line = one_line(told, "is_invariant")
    assert whole and "policy exact, because of VLLM_BATCH_INVARIANT" in line


def test_the_users_own_switch_is_heeded(told: list[dict[str, Any]]) -> None:
    own, line = one_line(told, "is_disabled")
    assert own is None and "--disable-custom-all-reduce is set" in line


def test_a_lost_rank_ends_the_step(told: list[dict[str, Any]]) -> None:
    assert told[0]["is_lost"][0] == (1,)


def at_load(rank: int, world: int, name: str) -> dict[str, Any]:
    """What a process says and does when vLLM loads its plug-ins: all that leaves vLLM as it is, and then what does not."""
    import lanesum
    import vllm.plugins
    from vllm.distributed.device_communicators import cuda_communicator, custom_all_reduce

    def load() -> tuple[list[str], bool]:
        lines.all.clear()
        vllm.plugins.plugins_loaded = False
        plugins = {"lanesum": entry_point("vllm.general_plugins")}
        with mock.patch("vllm.plugins.load_plugins_by_group", return_value=plugins):
            vllm.plugins.load_general_plugins()
        return list(lines.all), "_lanesum" in vars(custom_all_reduce.CustomAllreduce)

    lines, told = Lines(), dict[str, Any]()
    lines.listen(LOG)
    # A rank is a child, and only the first process of a server speaks.
    with mock.patch("multiprocessing.parent_process", return_value=None):
        with mock.patch("importlib.metadata.version", return_value="0.34.0"):
            told["version"] = load()
        with mock.patch.object(cuda_communicator.CudaCommunicator, "all_reduce", lambda self, tensor, group: tensor):
            told["signature"] = load()
        with mock.patch.object(type(vllm.platforms.current_platform), "device_type", "cpu"):
            told["platform"] = load()
        for variable in ("LANESUM", "LANESUM_POLICY", "LANESUM_DEADLINE_MS"):
            with mock.patch.dict(os.environ, {variable: "perhaps"}), pytest.raises(lanesum.EnvironmentVariableError) as error:
                load()
            told[variable] = str(error.value), None
        with mock.patch.dict(os.environ, {"LANESUM": "0"}):
            told["off"] = load()
        told["quiet"] = load()
    return told


def test_what_it_does_when_it_is_loaded() -> None:
    (told,) = ranks.succeeded(ranks.run(1, at_load))
    for case, words in {
        "version": "knows vLLM 0.33 and found 0.34.0",
        "signature": "CudaCommunicator.all_reduce(self, input_) of vLLM and found (self, tensor, group)",
        "platform": "this is the platform cpu",
    }.items():
        lines, patched = told[case]
        assert len(lines) == 1 and "lanesum stays out of vLLM" in lines[0] and words in lines[0] and not patched, case
    for variable in ("LANESUM", "LANESUM_POLICY", "LANESUM_DEADLINE_MS"):
        assert variable in told[variable][0] and "perhaps" in told[variable][0]
    assert len(told["off"][0]) == 1 and "turns lanesum off" in told["off"][0][0]
    assert told["quiet"] == ([], True)


def test_its_sources_are_as_the_list_says() -> None:
    spec = find_spec("vllm")
    assert spec and spec.origin
    needs = engines_check.NEEDS["vllm"]
    assert list(engines_check.differences(needs, Path(spec.origin).parents[1])) == []


def seen(rank: int, world: int, name: str) -> bool:
    from vllm.config.logging import LoggingConfig
    from vllm.logger import configure_logging

    configure_logging(LoggingConfig())
    return logging.getLogger(LOG).isEnabledFor(logging.INFO) and logging.getLogger(LOG).hasHandlers()


def test_the_line_is_seen_with_vllms_own_logging() -> None:
    assert ranks.succeeded(ranks.run(1, seen)) == [True]
