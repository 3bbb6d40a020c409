"""Communicators from their making to their end: launchers, threads, forks, leaks, and what they tell of themselves."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import lanesum
import numpy
import pytest
import ranks
from lanesum._command import program

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


def floats(size: int = 3) -> Any:
    return numpy.ones(size, numpy.float32)


def test_closed_communicators_say_so() -> None:
    communicator = lanesum.Communicator(0, 1, ranks.name())
    assert not communicator.closed
    communicator.close()
    communicator.close()
    assert communicator.closed and communicator.rank == 0 and communicator.world_size == 1
    for use in [
        lambda: communicator.all_reduce(floats()),
        communicator.barrier,
        communicator.channel,
        communicator.check,
        communicator.counters,
        lambda: communicator.split(0),
        lambda: communicator.deadline,
    ]:
        with pytest.raises(lanesum.ClosedError, match="closed; hint"):
            use()


def test_leaving_the_block_hides_no_exception() -> None:
    with pytest.raises(KeyError, match="mine"), lanesum.Communicator(0, 1, ranks.name()) as communicator:
        raise KeyError("mine")
    assert communicator.closed


def test_what_it_tells_of_itself() -> None:
    with lanesum.Communicator(0, 1, ranks.name(), deadline=7) as communicator:
        assert "rank 0 of 1" in repr(communicator) and communicator.deadline == 7
        assert communicator.tree == "0" and communicator.device is None and communicator.without_device is None
        assert communicator.isa and communicator.setup_time > 0 and communicator.memory > 0
        assert communicator.device_memory == 0 and communicator.lost_ranks == []
        assert isinstance(communicator.plan_digest, int) and communicator.topology["ranks"]
        issued = communicator.all_reduce(floats())
        assert repr(issued) == "<lanesum.Issued done: 12 B by alone, engine host, path none>"
        assert (issued.capture, issued.position) == (None, None)
        told = communicator.counters()
        assert (told["calls"], told["bytes"], told["by_algorithm"], told["device"]) == (1, 12, {"alone": 1}, None)
        explanation = communicator.explain(floats(7168))
        assert explanation["chosen"] == "alone" and "7,168 f32" in str(explanation)
        assert communicator.explain(7168, dtype="bfloat16", op="max")["request"]["dtype"] == "bf16"
        assert communicator.explain(5, dtype="f16", buffers="device")["chosen"] is None
        for words in ({"tensor": 5}, {"tensor": floats(), "dtype": "f16"}):
            with pytest.raises(TypeError, match="hint"):
                communicator.explain(**words)
        check = communicator.check()  # type: ignore[func-returns-value]
        assert check is None
    assert lanesum.__version__


def busy(rank: int, world: int, name: str) -> list[str]:
    communicator = lanesum.Communicator(rank, world, name, deadline=20)
    if rank == 1:
        time.sleep(3)
        communicator.all_reduce(floats())
        communicator.all_reduce(floats())
        return []
    kinds, turns = [], 0
    caller = threading.Thread(target=lambda: communicator.all_reduce(floats()))
    caller.start()
    started = time.monotonic()
    while time.monotonic() - started < 0.5:
        # Python runs while the other thread waits.
        turns += 1
        time.sleep(0.001)
    assert turns > 20
    for use in (lambda: communicator.all_reduce(floats()), communicator.close, communicator.counters):
        with pytest.raises(lanesum.BusyError, match="another thread.*hint") as told:
            use()
        kinds.append(told.value.kind)
    child = os.fork()
    if child == 0:
        try:
            communicator.all_reduce(floats())
        except lanesum.ForkedError:
            os._exit(7)
        os._exit(8)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    caller.join()
    # One after the other, threads may share it.
    results: list[Any] = []
    second = threading.Thread(target=lambda: results.append(communicator.all_reduce(floats())))
    second.start()
    second.join()
    assert results[0].ordinal == 1
    communicator.close()
    return kinds


def test_a_second_thread_is_refused_and_python_goes_on() -> None:
    assert ranks.succeeded(ranks.run(2, busy))[0] == ["busy"] * 3


def test_a_forked_child_is_refused_and_the_parent_goes_on() -> None:
    communicator = lanesum.Communicator(0, 1, ranks.name())
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        said = "nothing"
        try:
            communicator.all_reduce(floats())
        except lanesum.ForkedError as error:
            said = str(error)
        except BaseException as error:
            said = repr(error)
        os.write(write, said.encode())
        del communicator
        gc.collect()
        os._exit(7)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    assert "forked child" in said and "; hint: make a new communicator in the child" in said
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    communicator.all_reduce(floats())
    communicator.close()


def of_this_process() -> tuple[int, int, int, int]:
    """Descriptors, mappings, threads, and memory in KiB."""
    status = Path("/proc/self/status").read_text()
    value = {line.split(":")[0]: line.split()[1] for line in status.splitlines() if len(line.split()) > 1}
    maps = len(Path("/proc/self/maps").read_text().splitlines())
    return len(os.listdir("/proc/self/fd")), maps, int(value["Threads"]), int(value["VmRSS"])


def make_and_end(rank: int, world: int, name: str, times: int) -> list[tuple[int, int, int, int]]:
    seen = []
    for turn in range(times):
        communicator = lanesum.Communicator(rank, world, f"{name}-{turn}", deadline=20)
        communicator.all_reduce(floats(1001))
        # Either way to end.
        if turn % 2:
            communicator.close()
        del communicator
        if turn in (times // 5, times - 1):
            gc.collect()
            seen.append(of_this_process())
    return seen


def leaks_nothing(times: int) -> None:
    for early, late in ranks.succeeded(ranks.run(2, make_and_end, times)):
        assert late[0] <= early[0] and late[2] <= early[2] and late[1] <= early[1] + 4, (early, late)
        assert late[3] - early[3] < 4096, f"memory grows by {late[3] - early[3]} KiB in {times} turns"


def test_a_thousand_communicators_leave_nothing_behind() -> None:
    leaks_nothing(1000)


@pytest.mark.long
def test_ten_thousand_communicators_leave_nothing_behind() -> None:
    ranks.LONGEST = 1200
    leaks_nothing(10_000)


def test_a_million_refusals_and_receipts_leave_nothing_behind() -> None:
    with lanesum.Communicator(0, 1, ranks.name()) as communicator:
        tensor, wrong = floats(5), numpy.ones(5)
        references = sys.getrefcount(tensor)
        before = 0
        for turn in range(20_000):
            communicator.all_reduce(tensor)
            with pytest.raises(lanesum.TensorTypeError):
                communicator.all_reduce(wrong)
            if turn == 5_000:
                before = of_this_process()[3]
        assert sys.getrefcount(tensor) == references
        assert of_this_process()[3] - before < 2048


class Bearer(numpy.ndarray):  # type: ignore[type-arg]
    """An array that can hold the proof of its own call, and is looked at by the collector."""

    issued: Any


def test_a_proof_that_its_own_tensor_holds_is_collected() -> None:
    with lanesum.Communicator(0, 1, ranks.name()) as communicator:
        tensor = floats(5).view(Bearer)
        tensor.issued = communicator.all_reduce(tensor)
        assert tensor.issued.output is tensor
        gone = weakref.ref(tensor)
        del tensor
        gc.collect()
        assert gone() is None


def launched(ranks_wanted: int, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lanesum", "launch", "-n", str(ranks_wanted), "--", *words]
    everything = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=everything)


def test_the_environment_of_the_launcher() -> None:
    program = (
        "import lanesum, numpy; c = lanesum.Communicator.from_env(deadline=10); t = numpy.ones(3, 'f4');"
        "c.all_reduce(t); print(c.rank, c.world_size, c.deadline, t[0]); c.close()"
    )
    outcome = launched(3, sys.executable, "-c", program)
    assert outcome.returncode == 0, outcome.stderr
    assert sorted(line.split("] ")[-1] for line in outcome.stdout.splitlines()) == [f"{n} 3 10.0 3.0" for n in range(3)]


def test_a_process_may_end_with_a_communicator_open() -> None:
    words = f"import lanesum, sys; kept = lanesum.Communicator(0, 1, {ranks.name()!r}); sys.exit(5)"
    outcome = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, timeout=60, check=False)
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (5, "", "")


def test_an_environment_without_a_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_RANK"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(lanesum.EnvironmentVariableError, match="hint: start the ranks with `lanesum launch"):
        lanesum.Communicator.from_env()


class FakeMpi:
    """What is used of mpi4py, between threads of one process."""

    def __init__(self, rank: int, world: int, barrier: threading.Barrier, words: list[Any], hosts: bool) -> None:
        self.rank, self.world, self.barrier, self.words, self.hosts = rank, world, barrier, words, hosts

    def Get_rank(self) -> int:
        return self.rank

    def Get_size(self) -> int:
        return self.world

    def allgather(self, word: Any) -> list[Any]:
        name, host = word
        self.words[self.rank] = (name, f"{host}-{self.rank}" if self.hosts else host)
        self.barrier.wait()
        return list(self.words)


@pytest.mark.parametrize("hosts", [False, True])
def test_ranks_of_mpi(hosts: bool) -> None:
    barrier, words, results = threading.Barrier(2), [None, None], [None, None]

    def rank(index: int) -> None:
        try:
            with lanesum.Communicator.from_mpi(FakeMpi(index, 2, barrier, words, hosts), deadline=10) as communicator:
                tensor = floats()
                communicator.all_reduce(tensor)
                results[index] = float(tensor[0])  # type: ignore[call-overload]
        except lanesum.RendezvousError as error:
            results[index] = error  # type: ignore[call-overload]

    threads = [threading.Thread(target=rank, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if hosts:
        for error in results:
            assert isinstance(error, lanesum.RendezvousError) and error.ranks == (1,) and error.kind == "hosts"
    else:
        assert results == [2.0, 2.0]
    with pytest.raises(TypeError, match="hint"):
        lanesum.Communicator.from_mpi(object())


def of_torch(rank: int, world: int, name: str, port: int) -> Any:
    import torch
    import torch.distributed as dist

    with pytest.raises(lanesum.RendezvousError, match="no process group"):
        lanesum.Communicator.from_torch()
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
    with lanesum.Communicator.from_torch(deadline=10) as first, lanesum.Communicator.from_torch() as second:
        tensor = torch.full((5,), float(rank))
        first.all_reduce(tensor)
        second.all_reduce(tensor)
    dist.destroy_process_group()
    return tensor.tolist()


def test_ranks_of_torch() -> None:
    pytest.importorskip("torch")
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    assert ranks.succeeded(ranks.run(2, of_torch, port)) == [[2.0] * 5] * 2


def test_the_executable_is_in_the_wheel() -> None:
    assert program().is_file() and os.access(program(), os.X_OK)
    outcome = subprocess.run(
        [Path(sys.executable).with_name("lanesum"), "verify-cycle", "--no-pin", "--json", "--ranks", "2", "--cycles", "2"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert outcome.returncode == 0 and '"exact":true' in outcome.stdout.replace(" ", ""), outcome.stderr


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 2


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_run(path: Path) -> None:
    outcome = launched(2, sys.executable, str(path))
    assert outcome.returncode == 0, outcome.stderr + outcome.stdout


@pytest.mark.parametrize("page", ["README.md", "docs/python.md"])
def test_the_program_of_the_documentation_runs(page: str, tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / page).read_text()
    (tmp_path / "program.py").write_text(text.split("```python\n")[1].split("```")[0])
    outcome = launched(2, sys.executable, str(tmp_path / "program.py"))
    assert outcome.returncode == 0 and "3.0 <lanesum.Issued done: 28672 B by" in outcome.stdout, outcome.stderr


def test_no_array_library_is_imported() -> None:
    words = "import sys, lanesum; print([m for m in ('numpy', 'torch', 'jax', 'cupy', 'mpi4py') if m in sys.modules])"
    outcome = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert outcome.stdout.strip() == "[]"
