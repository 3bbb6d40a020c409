"""The backend `lanesum` of torch.distributed: who runs what, and that it is right. Real processes; skipped where there is no torch."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lanesum
import pytest
from crew import TIMEOUT, Crew, grouped

torch = pytest.importorskip("torch")
import lanesum.torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from lanesum.torch import _table  # noqa: E402

DTYPES = ("float32", "float16", "bfloat16")
SIZES = (0, 1, 7, 1001, 300_001)
SHAPES = {"a scalar": (), "a matrix": (3, 5), "empty": (0, 4)}


def filled(rank: int, size: int, dtype: Any) -> Any:
    """Whole numbers whose sums are exact in every dtype."""
    return ((torch.arange(size) * (rank + 3) + rank) % 17 - 8).to(dtype)


def expected(world: int, size: int, dtype: Any, op: str) -> Any:
    inputs = torch.stack([filled(rank, size, torch.float32) for rank in range(world)])
    return {"SUM": inputs.sum(0), "MAX": inputs.amax(0), "MIN": inputs.amin(0)}[op].to(dtype)


def sums(rank: int, world: int, port: str) -> dict[str, Any]:
    calls = 0
    with grouped(rank, world, port):
        for word in DTYPES:
            for op in ("SUM", "MAX", "MIN"):
                for size in SIZES:
                    tensor = filled(rank, size, getattr(torch, word))
                    assert dist.all_reduce(tensor, getattr(dist.ReduceOp, op)) is None
                    assert torch.equal(tensor, expected(world, size, tensor.dtype, op)), (word, op, size)
                    calls += 1
        for shape in SHAPES.values():
            tensor = torch.full(shape, rank + 1.0)
            dist.all_reduce(tensor)
            assert bool((tensor == 3).all()) and tensor.shape == shape
            calls += 1
        complex_numbers = torch.full((5,), complex(rank, 1))
        dist.all_reduce(complex_numbers)
        assert torch.equal(complex_numbers, torch.full((5,), 1 + 2j))
        counted = lanesum.torch.counters()
        assert counted == {"allreduce": {"lanesum": calls + 1}}
        ((place, communicator),) = lanesum.torch.communicators().items()
        assert place == "cpu" and communicator.counters()["calls"] == calls + 1
        assert dist.get_backend() == "lanesum" and dist.group.WORLD.name() == "lanesum"
    return counted


def test_lanesum_sums(crew: Crew) -> None:
    crew.do(sums)


def bits(rank: int, world: int, port: str) -> list[Any]:
    generator = torch.Generator().manual_seed(rank)
    with grouped(rank, world, port):
        results = []
        for word in DTYPES:
            tensor = torch.randn(5003, generator=generator).to(getattr(torch, word))
            dist.all_reduce(tensor)
            results.append(tensor.view(torch.uint8).numpy().tobytes())
    return results


def test_the_bits_are_those_of_all_ranks(crew: Crew) -> None:
    first, second = crew.do(bits)
    assert first == second


def test_the_table_has_all_that_torch_has() -> None:
    kind = dist.ProcessGroup
    methods = {name for name in dir(kind) if callable(getattr(kind, name)) and not isinstance(getattr(kind, name), type)}
    assert not _table.unknown(methods), "decide who runs it, in lanesum/torch/_table.py"
    # torch's private ones that are collectives are in C++ what others forward to.
    private = {name for name in methods if name.startswith("_") and ("all" in name or "scatter" in name or "gather" in name)}
    assert private <= _table.COLLECTIVES.keys()
    for name in methods & _table.COLLECTIVES.keys():
        assert name in vars(lanesum.torch._group.LanesumGroup), f"{name} bypasses the table"
    assert not _table.COLLECTIVES.keys() & (_table.PLUMBING | _table.REFUSED.keys())


def test_what_torch_will_have_is_refused() -> None:
    assert _table.unknown({"allreduce", "_private", "all_reduce_quantised"}) == {"all_reduce_quantised"}


def refused(rank: int, world: int, port: str) -> None:
    with grouped(rank, world, port):
        for name in _table.REFUSED:
            with pytest.raises(lanesum.RefusedError, match="hint: "):
                getattr(dist.group.WORLD, name)()


def test_what_the_table_refuses_raises(crew: Crew) -> None:
    crew.do(refused)


def with_gloo(rank: int, world: int, port: str) -> list[str]:
    """All that lanesum lacks is as Gloo has it."""
    with grouped(rank, world, port):
        gloo = dist.new_group(backend="gloo")
        done = []
        for op in ("SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "AVG"):
            for dtype in (torch.float64, torch.int64, torch.int32, torch.uint8, torch.float32):
                results = []
                for group in (None, gloo):
                    tensor = torch.arange(1, 8).to(dtype) + rank
                    try:
                        dist.all_reduce(tensor, getattr(dist.ReduceOp, op), group=group)
                    except Exception as error:
                        # That the operation is not there is said alike.
                        results.append(str(error)[:40])
                    else:
                        results.append(tensor.tolist())
                        done.append(f"{op} {dtype}")
                assert results[0] == results[1], (op, dtype)
        sparse = torch.eye(3).mul(rank + 1).to_sparse()
        dist.all_reduce(sparse)
        assert torch.equal(sparse.to_dense(), torch.eye(3) * 3)
        ran = lanesum.torch.counters()["allreduce"]
        assert ran["lanesum"] == 3 and ran["gloo"] >= 20
    return done


def test_other_sums_are_gloos(crew: Crew) -> None:
    done, _ = crew.do(with_gloo)
    assert "PRODUCT torch.float32" in done and "SUM torch.int64" in done


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def environment(rank: int, world: int, port: str, backend: str, settings: dict[str, str]) -> tuple[list[str], dict[str, Any]]:
    handler, logger = Lines(), logging.getLogger("lanesum.torch")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    kept = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        with grouped(rank, world, port, backend):
            tensor = torch.ones(3)
            dist.all_reduce(tensor)
            dist.all_reduce(tensor, async_op=True).wait()
            assert tensor.tolist() == [4.0] * 3
            return handler.lines, lanesum.torch.counters()
    finally:
        logger.removeHandler(handler)
        for name, value in kept.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


@pytest.mark.parametrize("backend", ["lanesum", "cpu:lanesum,cuda:lanesum"])
def test_a_line_says_who_runs_what(crew: Crew, backend: str) -> None:
    told = crew.do(environment, backend, {})
    # The first rank speaks for all.
    ((line,), others) = (lines for lines, _ in told)
    assert "of 2 ranks: lanesum runs all_reduce of float32" in line and "Gloo the rest" in line and not others
    assert all(counted["allreduce"] == {"lanesum": 2} for _, counted in told)


def test_off(crew: Crew) -> None:
    told = crew.do(environment, "lanesum", {"LANESUM": "0"})
    assert told[0][0][0].endswith("lanesum nothing: rank 0: the environment turns it off by LANESUM")
    assert all(counted["allreduce"] == {"gloo": 2} for _, counted in told)


def on_one_rank(rank: int, world: int, port: str, settings: dict[str, str]) -> tuple[list[str], dict[str, Any]]:
    return environment(rank, world, port, "lanesum", settings if rank == 1 else {})


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"LANESUM": "0"}, "rank 1: the environment turns it off by LANESUM"),
        ({"LANESUM_POLICY": "fastest"}, "the ranks have different policies (LANESUM_POLICY)"),
    ],
)
def test_what_one_rank_does_not_want_none_does(crew: Crew, settings: dict[str, str], why: str) -> None:
    told = crew.do(on_one_rank, settings)
    assert told[0][0][0].endswith(f"lanesum nothing: {why}")
    assert all(counted["allreduce"] == {"gloo": 2} for _, counted in told)


def test_the_policy_is_read(crew: Crew) -> None:
    told = crew.do(environment, "lanesum", {"LANESUM_POLICY": "fastest"})
    assert "predicted to be faster" in told[0][0][0]
    assert all(counted["allreduce"] == {"lanesum": 2} for _, counted in told)
    for settings in ({"LANESUM_POLICY": "quickest"}, {"LANESUM": "perhaps"}):
        with pytest.raises(lanesum.EnvironmentVariableError, match=next(iter(settings.values()))):
            crew.do(environment, "lanesum", settings)


class Borders:
    """Lanes that hand messages over from 1000 bytes on, for what is asked of them."""

    def __init__(self, border: int | None, served: bool = True) -> None:
        self.border, self.served, self.asked = border, served, list[Any]()

    def of(self, device: Any) -> Borders:
        return self

    def serves(self, device: Any) -> bool:
        return self.served

    def delegate_from(self, dtype: str, op: str) -> int | None:
        self.asked.append((dtype, op))
        return self.border


class OnGpu(SimpleNamespace):
    """What is asked of a tensor in a GPU's memory."""

    def __init__(self, size: int, dtype: Any = torch.bfloat16) -> None:
        device, layout = SimpleNamespace(type="cuda", index=0), torch.strided
        super().__init__(dtype=dtype, device=device, layout=layout, numel=lambda: size, element_size=lambda: dtype.itemsize)


def test_lengths_are_handed_over_as_the_policy_says(monkeypatch: pytest.MonkeyPatch) -> None:
    from lanesum.torch import _route

    monkeypatch.setattr(_route, "_KINDS", (OnGpu,))
    sums = dist.ReduceOp.SUM
    for fastest, border, served, small, large in (
        (False, 1000, True, "sum", "sum"),
        (True, 1000, True, "sum", None),
        (True, None, True, "sum", "sum"),
        (True, 1000, False, None, None),
    ):
        lanes: Any = Borders(border, served)
        route = _route.Route(lanes, fastest)
        for _ in range(2):
            assert route.operation(OnGpu(499), sums) == small and route.operation(OnGpu(500), sums) == large
        # It takes a millisecond: asked once.
        assert lanes.asked == ([("bfloat16", "sum")] if fastest and served else [])
        assert route.operation(OnGpu(1, torch.float64), sums) is None
        assert route.operation(OnGpu(1), dist.ReduceOp.AVG) is None


def one_rank(rank: int, world: int, port: str) -> None:
    with grouped(0, 1, str(int(port) + rank)):
        tensor = torch.arange(4.0)
        dist.all_reduce(tensor)
        assert tensor.tolist() == [0, 1, 2, 3] and lanesum.torch.counters()["allreduce"] == {"lanesum": 1}


def test_a_world_of_one(crew: Crew) -> None:
    crew.do(one_rank)


def other_hosts(rank: int, world: int, port: str) -> tuple[list[str], dict[str, Any]]:
    from lanesum import _groups

    kept, _groups.own_word = _groups.own_word, lambda prefix: (prefix, f"host {rank}")
    try:
        return environment(rank, world, port, "lanesum", {})
    finally:
        _groups.own_word = kept


def test_a_group_over_hosts_is_delegated_as_a_whole(crew: Crew) -> None:
    told = crew.do(other_hosts)
    assert "lanesum nothing: ranks 1 of the group are on another host" in told[0][0][0]
    assert all(counted["allreduce"] == {"gloo": 2} for _, counted in told)


def again(rank: int, world: int, port: str) -> list[float]:
    results = []
    for turn in range(3):
        with grouped(rank, world, str(int(port) + turn)):
            tensor = torch.full((9,), rank + turn + 0.0)
            dist.all_reduce(tensor)
            group = dist.group.WORLD
            results.append(tensor[0].item())
        with pytest.raises(lanesum.ClosedError, match="hint: call torch.distributed.init_process_group"):
            group.allreduce([tensor])
    return results


def one_store(rank: int, world: int, port: str) -> None:
    store = dist.TCPStore("127.0.0.1", int(port), world, rank == 0, timeout=TIMEOUT)
    for _ in range(3):
        dist.init_process_group("lanesum", store=store, rank=rank, world_size=world, timeout=TIMEOUT)
        tensor = torch.ones(3)
        dist.all_reduce(tensor)
        assert tensor.tolist() == [2.0] * 3
        dist.barrier()
        dist.destroy_process_group()
    # The first rank has the store, and ends last.
    if rank == 0:
        store.wait(["done"])
    else:
        store.set("done", "")


def test_a_store_serves_several_times(crew: Crew) -> None:
    crew.do(one_store)


def test_a_group_is_destroyed_and_made_anew(crew: Crew) -> None:
    assert crew.do(again) == [[1.0, 3.0, 5.0]] * 2


def test_torch_finds_the_backend_by_itself(tmp_path: Path) -> None:
    # As an installed package has it, of which the sources have none.
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    entry = project.split('[project.entry-points."torch.backends"]\n')[1].split("\n")[0].replace('"', "")
    folder = tmp_path / "entry-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: entry\nVersion: 1\n")
    (folder / "entry_points.txt").write_text(f"[torch.backends]\n{entry}\n")
    words = (
        "import sys, torch.distributed as dist;"
        "print('lanesum' in dist.Backend.backend_list, 'lanesum' in sys.modules, 'lanesum.torch' in sys.modules);"
        "dist.init_process_group('lanesum', store=dist.HashStore(), rank=0, world_size=1);"
        "dist.all_reduce(t := __import__('torch').ones(3)); print(t.tolist(), dist.get_backend());"
        "import lanesum.torch; print(lanesum.torch.counters()); dist.destroy_process_group()"
    )
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    told = subprocess.run(
        [sys.executable, "-c", words],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    assert told.stdout.splitlines() == [
        "True True False",
        "[1.0, 1.0, 1.0] lanesum",
        "{'allreduce': {'lanesum': 1}}",
    ]


def test_without_torch() -> None:
    words = "import sys; sys.modules['torch'] = None; import lanesum; print('imported'); import lanesum.torch"
    told = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, timeout=60, check=False)
    assert told.stdout == "imported\n" and told.returncode == 1
