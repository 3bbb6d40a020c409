"""Memory of GPUs by raw addresses, on the stand-in driver: streams, graphs, protocols, and what is refused."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from types import ModuleType, SimpleNamespace
from typing import Any

import lanesum
import ml_dtypes
import numpy
import pytest
import ranks
from gpu import CUDA, Dlpack, Gpu, Memory, interface

DTYPES = (numpy.float32, numpy.float16, ml_dtypes.bfloat16)


def joined(rank: int, world: int, name: str, **options: Any) -> tuple[lanesum.Communicator, Gpu]:
    communicator = lanesum.Communicator(rank, world, name, device=rank, deadline=20, **options)
    assert communicator.device == rank and communicator.device_memory > 0
    return communicator, Gpu(rank)


def filled(gpu: Gpu, rank: int, size: int = 301, dtype: Any = numpy.float32) -> Memory:
    return Memory(gpu, numpy.full(size, rank + 1, dtype))


def sums(rank: int, world: int, name: str) -> int:
    communicator, gpu = joined(rank, world, name)
    stream = gpu.stream()
    total = world * (world + 1) // 2
    for dtype in DTYPES:
        for size in (0, 1, 7, 301, 4099):
            # A scalar too; where no stream is named, the default one orders the call.
            memory, out = filled(gpu, rank, size, dtype), filled(gpu, 99, size, dtype)
            issued = communicator.all_reduce(interface(memory))
            issued.wait()
            assert (memory.read() == total).all() and issued.poll()
            assert (issued.state, issued.engine, issued.epoch) == ("enqueued", "cuda", None)
            issued = communicator.all_reduce(Dlpack(memory), op="max", out=interface(out), stream=stream)
            gpu.synchronize(stream)
            assert (out.read() == total).all() and issued.poll()
    host = numpy.full(5, rank, numpy.float32)
    assert communicator.all_reduce(host).state == "done" and host[0] == total - world
    assert communicator.counters()["device"]["calls"] == 30
    communicator.close()
    return communicator.world_size


@pytest.mark.parametrize("world", [1, 2, 3])
def test_sums_on_gpus(gpus: dict[str, str], world: int) -> None:
    assert ranks.succeeded(ranks.run(world, sums, environment=gpus)) == [world] * world


def streams(rank: int, world: int, name: str) -> list[Any]:
    communicator, gpu = joined(rank, world, name)
    own = gpu.stream()
    memory = filled(gpu, rank)
    view = Dlpack(memory)
    versions = Dlpack(memory, versioned=False, offset=64)
    for stream in (
        None,
        own,
        SimpleNamespace(cuda_stream=own),
        SimpleNamespace(ptr=own),
        SimpleNamespace(__cuda_stream__=lambda: (0, own)),
    ):
        for tensor in (view, versions):
            memory.write(numpy.full(301, rank + 1, numpy.float32))
            communicator.all_reduce(tensor, stream=stream).wait()
            assert (memory.read() == 3).all()
    assert view.streams == versions.streams == [1, own, own, own, own]
    # What the library of `out` still does is waited for by the call's stream, wherever that comes from.
    out = Dlpack(filled(gpu, 9))
    memory.write(numpy.full(301, rank + 1, numpy.float32))
    communicator.all_reduce(interface(memory, stream=own), out=out).wait()
    assert (out.memory.read() == 3).all() and out.streams == [own]
    memory.write(numpy.full(301, 3, numpy.float32))
    # CuPy's current stream is in its interface.
    communicator.all_reduce(interface(memory, stream=own))
    gpu.synchronize(own)
    assert (memory.read() == 6).all()
    communicator.close()
    return []


def test_every_way_to_name_a_stream(gpus: dict[str, str]) -> None:
    ranks.succeeded(ranks.run(2, streams, environment=gpus))


def graphs(rank: int, world: int, name: str) -> list[Any]:
    communicator, gpu = joined(rank, world, name)
    stream = gpu.stream()
    memory = filled(gpu, rank, dtype=ml_dtypes.bfloat16)
    tensor = interface(memory)
    seen = []

    def work() -> None:
        for _ in range(3):
            seen.append(communicator.all_reduce(tensor, op="max", stream=stream))

    launch = gpu.capture(stream, work)
    assert [(each.state, each.capture, each.position) for each in seen] == [("captured", 0, n) for n in range(3)]
    assert seen[0].ordinal is None
    for use in (seen[0].wait, seen[0].poll):
        with pytest.raises(lanesum.RefusedError, match="launched.*hint: .*check") as told:
            use()
        assert told.value.kind == "captured"
    for _ in range(4):
        launch()
    gpu.synchronize(stream)
    communicator.check()
    assert (memory.read() == 2).all() and communicator.counters()["device"]["calls"] == 12
    communicator.all_reduce(tensor, stream=stream).wait()
    communicator.close()
    return []


def test_graphs(gpus: dict[str, str]) -> None:
    ranks.succeeded(ranks.run(2, graphs, environment=gpus))


class FakeTensor:
    """What is asked of a tensor of torch."""

    def __init__(self, memory: Memory, torch: ModuleType) -> None:
        self.memory, self.layout, self.dtype, self.requires_grad = memory, torch.strided, torch.bfloat16, False
        self.device = SimpleNamespace(type="cuda", index=memory.gpu.ordinal)

    def is_contiguous(self) -> bool:
        return True

    def is_neg(self) -> bool:
        return False

    def data_ptr(self) -> int:
        return self.memory.address

    def numel(self) -> int:
        return int(numpy.prod(self.memory.shape))


def fake_torch(current: dict[int, int], raw: bool) -> ModuleType:
    torch: Any = ModuleType("torch")
    torch.Tensor = FakeTensor
    for word in ("float32", "float16", "bfloat16", "strided"):
        setattr(torch, word, f"torch.{word}")
    torch.is_grad_enabled = lambda: True
    torch._C = SimpleNamespace()
    if raw:
        torch._C._cuda_getCurrentRawStream = lambda device: current[device]
    torch.cuda = SimpleNamespace(current_stream=lambda device: SimpleNamespace(cuda_stream=current[device]))
    sys.modules["torch"] = torch
    return torch


def torches(rank: int, world: int, name: str, raw: bool) -> list[Any]:
    communicator, gpu = joined(rank, world, name)
    current = {rank: gpu.stream()}
    torch = fake_torch(current, raw)
    memory = filled(gpu, rank, dtype=ml_dtypes.bfloat16)
    tensor = FakeTensor(memory, torch)
    # The current stream is being captured, so the call is, too.
    launch = gpu.capture(current[rank], lambda: communicator.all_reduce(tensor))
    launch()
    gpu.synchronize(current[rank])
    communicator.check()
    assert (memory.read() == 3).all()
    # Another one is current: the call runs now.
    current[rank] = gpu.stream()
    issued = communicator.all_reduce(tensor)
    issued.wait()
    assert issued.state == "enqueued" and (memory.read() == 6).all()
    tensor.device.index = rank + 1
    current[rank + 1] = 0
    with pytest.raises(lanesum.DeviceError, match=f"GPU {rank + 1}, the communicator's is GPU {rank}"):
        communicator.all_reduce(tensor)
    communicator.close()
    return []


@pytest.mark.parametrize("raw", [True, False])
def test_the_current_stream_of_torch_is_taken(gpus: dict[str, str], raw: bool) -> None:
    ranks.succeeded(ranks.run(2, torches, raw, environment=gpus))


def refusals(rank: int, world: int, name: str) -> list[Any]:
    communicator, gpu = joined(rank, world, name)
    memory = filled(gpu, rank)
    start = memory.read().tobytes()
    host = numpy.ones(301, numpy.float32)
    for tensor, out, kind, case in [
        (interface(memory, device=5), None, lanesum.DeviceError, "foreign_device"),
        (interface(memory, device=rank), interface(memory, device=5), lanesum.DeviceError, "foreign_device"),
        (interface(memory), interface(memory, device=5), lanesum.DeviceError, "foreign_device"),
        (interface(memory), host, lanesum.DeviceError, "places"),
        (host, interface(memory), lanesum.DeviceError, "places"),
        (interface(memory, strides=(8,)), None, lanesum.TensorError, "strided"),
        (interface(memory, typestr="<f8"), None, lanesum.TensorTypeError, "dtype"),
        (interface(memory, data=(memory.address, True)), None, lanesum.TensorError, "read_only"),
        (Dlpack(memory, flags=1), None, lanesum.TensorError, "read_only"),
        (Dlpack(memory, flags=2), None, lanesum.TensorError, "read_only"),
        (Dlpack(memory, major=2), None, lanesum.TensorError, "protocol"),
        (Dlpack(Memory(gpu, numpy.ones(3))), None, lanesum.TensorTypeError, "dtype"),
        (interface(memory), interface(filled(gpu, 0, 5)), lanesum.TensorError, "lengths"),
    ]:
        with pytest.raises(kind) as told:
            communicator.all_reduce(tensor, out=out)
        assert told.value.kind == case and told.value.hint, case
    assert memory.read().tobytes() == start and CUDA == 2
    communicator.close()
    return []


def test_what_is_refused_of_gpus(gpus: dict[str, str]) -> None:
    ranks.succeeded(ranks.run(1, refusals, environment=gpus))


def mixed(rank: int, world: int, name: str) -> Any:
    communicator, gpu = joined(rank, world, name)
    communicator.deadline = 1
    memory = filled(gpu, rank)
    tensor = interface(memory) if rank else numpy.ones(301, numpy.float32)
    with pytest.raises(lanesum.FaultError) as told:
        communicator.all_reduce(tensor).wait()
    spoilt = memory.read() if rank else tensor
    assert numpy.isnan(spoilt).all()
    return told.value


def test_ranks_that_reduce_different_memories_are_told(gpus: dict[str, str]) -> None:
    for error in ranks.succeeded(ranks.run(2, mixed, environment=gpus)):
        assert error.ranks and error.hint


def told_by(how: str, communicator: lanesum.Communicator, tensor: Any) -> None:
    """Enqueues calls until one is told to have failed."""
    for _ in range(3):
        issued = communicator.all_reduce(tensor)
        # Without `wait` and `poll`, which tell of the call.
        time.sleep(0.5)
        if how == "wait":
            issued.wait()
        elif how == "check":
            communicator.check()


def killed(rank: int, world: int, name: str, how: str) -> Any:
    communicator, gpu = joined(rank, world, name)
    memory = filled(gpu, rank)
    communicator.all_reduce(interface(memory)).wait()
    communicator.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    started = time.monotonic()
    with pytest.raises(lanesum.Error) as told:
        told_by(how, communicator, interface(memory))
    assert time.monotonic() - started < 10 and numpy.isnan(memory.read()).all()
    # The fault is told once; from then on there was one. Leaving does not repeat it.
    with pytest.raises(lanesum.PoisonedError, match="rank 1"), communicator:
        communicator.all_reduce(interface(memory))
    return told.value


@pytest.mark.parametrize("how", ["wait", "check", "call"])
def test_a_killed_rank_is_named_by_calls_on_streams(gpus: dict[str, str], how: str) -> None:
    outcomes = ranks.run(3, killed, how, environment=gpus)
    for error in ranks.succeeded([outcomes[0], outcomes[2]]):
        assert isinstance(error, lanesum.RankLostError) and error.ranks == (1,)


def interrupted(rank: int, world: int, name: str) -> Any:
    communicator, gpu = joined(rank, world, name)
    memory = filled(gpu, rank)
    if rank == 1:
        time.sleep(3)
        communicator.all_reduce(interface(memory)).wait()
        return True
    issued = communicator.all_reduce(interface(memory))
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        issued.wait()
    assert time.monotonic() - started < 2
    # The call goes on, and can be waited for again.
    issued.wait()
    return bool((memory.read() == 3).all())


def test_control_c_ends_a_wait_and_not_the_call(gpus: dict[str, str]) -> None:
    assert ranks.succeeded(ranks.run(2, interrupted, environment=gpus)) == [True, True]


def automatic(rank: int, world: int, name: str) -> Any:
    with lanesum.Communicator(rank, world, name, engine="auto", path="host_staged") as communicator:
        gpu = Gpu(rank)
        issued = communicator.all_reduce(interface(filled(gpu, rank)))
        issued.wait()
        told = communicator.explain(interface(filled(gpu, rank)))
        return communicator.device, issued.path, told["path"]


def test_the_engine_may_be_left_open_and_the_path_pinned(gpus: dict[str, str]) -> None:
    outcomes = ranks.succeeded(ranks.run(2, automatic, environment=gpus))
    assert outcomes == [(rank, "host_staged", "host_staged") for rank in range(2)]


def made_often(rank: int, world: int, name: str) -> list[int]:
    seen = []
    for turn in range(30):
        communicator, gpu = joined(rank, world, f"{name}-{turn}")
        if turn == 0:
            memory = filled(gpu, rank)
        communicator.all_reduce(interface(memory))
        communicator.close()
        if turn in (10, 29):
            seen.append(len(os.listdir("/proc/self/fd")))
    return seen


def test_communicators_with_gpus_leave_nothing_behind(gpus: dict[str, str]) -> None:
    for early, late in ranks.succeeded(ranks.run(2, made_often, environment=gpus)):
        assert late <= early
