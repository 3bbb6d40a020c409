"""What the plug-ins decide, without torch and without an engine: ranks are threads here, their group a barrier."""

from __future__ import annotations

import inspect
import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import engines_check
import lanesum
import numpy
import pytest
from engines import Lines, entry_point
from lanesum.engines import _join, _names
from lanesum.engines._adapter import AllReduce
from lanesum.engines._join import Engine, join

LOG = logging.getLogger("lanesum.tests.engines")
CPU = SimpleNamespace(type="cpu", index=None)
DTYPES = ("float32", "float16", "bfloat16")


class Tensor(numpy.ndarray):
    """An array with as much of torch's tensors as lanesum's object uses."""

    def is_contiguous(self) -> bool:
        return self.flags.c_contiguous

    def new_empty(self, shape: Any) -> Tensor:
        return numpy.full(shape, numpy.nan, self.dtype).view(Tensor)


def ones(size: int, dtype: Any = numpy.float32) -> Tensor:
    return numpy.ones(size, dtype).view(Tensor)


class Group:
    """A group of threads, as torch.distributed shows one of processes."""

    def __init__(self, world: int) -> None:
        self.world, self.mine = world, threading.local()
        self.words: list[Any] = [None] * world
        self.barrier = threading.Barrier(world, timeout=60)

    def gather(self, into: list[Any], word: Any) -> None:
        self.words[self.mine.rank] = word
        self.barrier.wait()
        into[:] = self.words
        self.barrier.wait()

    def run(self, work: Callable[[int], Any]) -> list[Any]:
        def rank(number: int) -> Any:
            self.mine.rank = number
            return work(number)

        with ThreadPoolExecutor(self.world) as pool:
            return list(pool.map(rank, range(self.world)))


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lines]:
    """What was logged, where this process has the torch of threads."""
    distributed = SimpleNamespace(
        get_rank=lambda group: group.mine.rank,
        get_world_size=lambda group: group.world,
        all_gather_object=lambda into, word, group: group.gather(into, word),
    )
    dtypes = {dtype: numpy.dtype("float32" if dtype == "float32" else "float16") for dtype in DTYPES}
    torch = SimpleNamespace(
        distributed=distributed, version=SimpleNamespace(hip=None), inference_mode=lambda on: nullcontext(), **dtypes
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch.distributed", distributed)
    for variable in ("LANESUM", "LANESUM_POLICY", "LANESUM_DEADLINE_MS"):
        monkeypatch.delenv(variable, raising=False)
    handler = Lines()
    handler.listen(LOG.name)
    yield handler
    LOG.removeHandler(handler)


def joined(world: int, engine: Callable[[int], Engine], device: Any = CPU) -> list[AllReduce | None]:
    group = Group(world)
    return group.run(lambda rank: join(group, device, engine(rank), LOG))


def plain(_: int) -> Engine:
    return Engine("the engine", None, None)


@pytest.mark.parametrize("world", [2, 5, 7])
def test_all_join_and_sum(world: int, lines: Lines) -> None:
    every = joined(world, plain)
    with ThreadPoolExecutor(world) as pool:
        outs = list(pool.map(lambda ours: ours.custom_all_reduce(ones(1000)), every))
    assert all((out == world).all() for out in outs)
    assert lines.all == [
        f"lanesum sums in a group of {world} ranks of the engine: float32, float16, bfloat16 of every length "
        "(policy fastest, the default); other dtypes and layouts are left to the engine. LANESUM=0 turns it off"
    ]
    for ours in every:
        assert ours and ours.communicator.deadline == 600
        ours.close()
        assert ours.disabled and not ours.should_custom_ar(ones(1))


def test_the_question_is_the_plan_and_the_call_a_promise(lines: Lines) -> None:
    communicator = lanesum.Communicator(0, 1, "plan")
    ours = AllReduce(communicator, {numpy.dtype("float32"): 64, numpy.dtype("float16"): None})
    assert ours.should_custom_ar(ones(15)) and not ours.should_custom_ar(ones(16))
    assert ours.should_custom_ar(ones(1 << 20, numpy.float16)) and not ours.should_custom_ar(ones(1, numpy.float64))
    assert not ours.should_custom_ar(ones(8)[::2])
    # Whoever calls without having asked gets the sum all the same, or an error: never a tensor that nobody wrote.
    assert (ours.custom_all_reduce(ones(16)) == 1).all()
    for tensor in (ones(1, numpy.float64), ones(8)[::2]):
        with pytest.raises(lanesum.TensorError):
            ours.custom_all_reduce(tensor)
    with ours.capture():
        assert (ours.custom_all_reduce(ones(3)) == 1).all()
    ours.close()
    with pytest.raises(lanesum.ClosedError):
        ours.custom_all_reduce(ones(3))


def test_no_other_rank_joins_where_one_is_against(lines: Lines) -> None:
    assert joined(3, lambda rank: Engine("the engine", "it is Sunday" if rank == 2 else None, None)) == [None] * 3
    assert lines.all == [
        "lanesum stays out of a group of 3 ranks: rank 2: it is Sunday; the engine sums as without lanesum"
    ]


def test_groups_of_several_hosts_are_the_engines(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lanesum._groups.own_word", lambda prefix: (prefix, threading.current_thread().name))
    assert joined(2, plain) == [None, None]
    assert "ranks 1 of the group are on another host than rank 0" in lines.all[0]


def test_no_other_rank_stays_where_one_fails(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    original = _join._communicator

    def communicator(members: Any, *rest: Any) -> Any:
        if members.rank == 1:
            raise MemoryError("all gone")
        return original(members, *rest)

    monkeypatch.setattr(_join, "_communicator", communicator)
    monkeypatch.setattr(_join, "_SETUP_DEADLINE", 0.5)
    assert joined(3, plain) == [None] * 3
    # The others have waited in vain; the line has the cause.
    assert len(lines.all) == 1 and "rank 1: MemoryError: all gone" in lines.all[0]


@pytest.mark.parametrize(("limits", "least"), [((None, None), None), ((None, 64), 64), ((128, 64), 64), ((0, 9), 0)])
def test_predictions_that_differ_are_agreed_on(
    lines: Lines, monkeypatch: pytest.MonkeyPatch, limits: tuple[int | None, ...], least: int | None
) -> None:
    own = {"0": limits[0], "1": limits[1]}
    monkeypatch.setattr(_join, "_limits", lambda communicator, policy: dict.fromkeys(DTYPES, own[str(communicator.rank)]))
    for ours in joined(2, plain):
        assert ours and ours.max_size == (sys.maxsize if least is None else least)
        ours.close()


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"LANESUM": "0"}, "2 ranks: LANESUM turns it off;"),
        ({"LANESUM_POLICY": "exact"}, "every length (policy exact, by LANESUM_POLICY)"),
        ({"LANESUM_POLICY": "fastest"}, "(policy fastest, by LANESUM_POLICY)"),
    ],
)
def test_the_environment_is_heeded(
    lines: Lines, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], words: str
) -> None:
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    for ours in joined(2, plain):
        if ours:
            ours.close()
    assert len(lines.all) == 1 and words in lines.all[0]


@pytest.mark.parametrize("variable", ["LANESUM", "LANESUM_POLICY", "LANESUM_DEADLINE_MS"])
def test_nonsense_is_an_error_on_all_ranks(lines: Lines, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "perhaps")
    group = Group(2)

    def refused(_: int) -> str:
        with pytest.raises(lanesum.EnvironmentVariableError) as error:
            join(group, CPU, plain(0), LOG)
        return str(error.value)

    assert all(variable in text and "perhaps" in text and "hint:" in text for text in group.run(refused))
    assert not lines.all


def test_determinism_is_one_library_for_all_lengths(lines: Lines) -> None:
    for ours in joined(2, lambda _: Engine("the engine", None, "--same-bits")):
        assert ours and ours.max_size == sys.maxsize
        ours.close()
    assert "(policy exact, because of --same-bits)" in lines.all[0]


def test_other_devices_are_the_engines(lines: Lines) -> None:
    assert joined(2, plain, SimpleNamespace(type="xpu", index=0)) == [None, None]
    assert "no kernels for devices of type xpu" in lines.all[0]


@pytest.mark.parametrize(
    ("version", "known"), [("0.33.0", True), ("0.33.7rc1", True), ("0.33+cpu", True), ("0.34.0", False), ("0.3", False), ("1.33", False)]
)
def test_versions(version: str, known: bool) -> None:
    assert _names.known(_names.VLLM, version) is known


SIGNATURES = """
def a(self, x, y=1, *, z, w=2): ...
def b(x, /, y, *rest, z=3, **more): ...
def c(): ...
"""


def test_both_checks_write_signatures_alike(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(SIGNATURES)
    space: dict[str, Any] = {}
    exec(SIGNATURES, space)
    for name, expected in {"a": "self, x, y=, *, z, w=", "b": "x, /, y, *rest, z=, **more", "c": ""}.items():
        assert _names.written(inspect.signature(space[name])) == expected
        assert engines_check.present(_names.Name("module", name, ""), tmp_path) == expected


def test_what_the_sources_ask_is_found(tmp_path: Path) -> None:
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "new.py").write_text(
        "def f(self):\n"
        "    if hasattr(self.ca_comm, 'maybe'):\n"
        "        self.ca_comm.maybe()\n"
        "    return self.ca_comm.should_custom_ar(1), ca_comm.surprise\n"
    )
    found = list(engines_check.differences(_names.VLLM, tmp_path))
    assert sum("found none" in each for each in found) == len(_names.VLLM.names)
    assert [each for each in found if "asks" in each] == [
        "vLLM asks ca_comm.surprise, which lanesum's object need not have (new.py)"
    ]


@pytest.mark.parametrize("needs", engines_check.NEEDS.values(), ids=lambda needs: needs.title)
def test_lanesums_object_has_what_engines_ask(needs: _names.Needs) -> None:
    ours = AllReduce(lanesum.Communicator(0, 1, "asked"), {})
    assert all(hasattr(ours, attribute) for attribute in needs.attributes)
    assert _names.known(needs, needs.tried)
    ours.close()


@pytest.mark.parametrize("group", ["vllm.general_plugins", "sglang.srt.plugins"])
def test_the_declared_plug_ins_are_there_and_import_nothing(group: str) -> None:
    assert callable(entry_point(group))
    module = entry_point(group).__module__
    code = f"import sys, {module}; sys.exit(any(name in sys.modules for name in ('torch', 'vllm', 'sglang')))"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("group", ["vllm.general_plugins", "sglang.srt.plugins"])
def test_the_installed_package_declares_them(group: str) -> None:
    try:
        declared = metadata.distribution("lanesum").entry_points.select(group=group)
    except metadata.PackageNotFoundError:
        pytest.skip("lanesum runs from its sources")
    assert [point.load() for point in declared] == [entry_point(group)]
