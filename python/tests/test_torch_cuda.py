"""torch's tensors on real GPUs; skipped where torch sees none. Ranks share GPUs where there are fewer.

`pytest python/tests/test_torch_cuda.py` needs the wheel, torch, NumPy and pytest, and no Rust.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from typing import Any

import lanesum
import numpy
import pytest
import ranks

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("torch sees no GPU", allow_module_level=True)

DTYPES = ("float32", "float16", "bfloat16")


def joined(rank: int, world: int, name: str, **options: Any) -> lanesum.Communicator:
    device = rank % torch.cuda.device_count()
    torch.cuda.set_device(device)
    return lanesum.Communicator(rank, world, name, device=device, deadline=20, **options)


def filled(rank: int, size: int = 3 * 7168, dtype: Any = torch.bfloat16) -> Any:
    return torch.full((size,), float(rank + 1), dtype=dtype, device="cuda")


def sums(rank: int, world: int, name: str, path: str) -> str:
    communicator = joined(rank, world, name, path=path)
    total = world * (world + 1) // 2
    for word in DTYPES:
        for size in (0, 1, 7, 301, 3 * 7168, 300_001):
            tensor = filled(rank, size, getattr(torch, word))
            issued = communicator.all_reduce(tensor)
            # Work behind it on the stream sees the result.
            assert bool((tensor == total).all()) and issued.poll() and issued.state == "enqueued"
            out = torch.empty_like(tensor)
            communicator.all_reduce(filled(rank, size, getattr(torch, word)), op="max", out=out).wait()
            assert bool((out == world).all())
    scalar = torch.tensor(rank + 1.0, device="cuda")
    communicator.all_reduce(scalar)
    assert scalar.item() == total
    for _ in range(200):
        # Memory of the caching allocator comes back at once, on the same stream.
        communicator.all_reduce(filled(rank, 4099))
    torch.cuda.synchronize()
    communicator.check()
    communicator.close()
    return issued.path


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("path", ["auto", "host_staged"])
def test_sums(world: int, path: str) -> None:
    assert len(set(ranks.succeeded(ranks.run(world, sums, path)))) == 1


def streams(rank: int, world: int, name: str) -> int:
    communicator = joined(rank, world, name)
    side = torch.cuda.Stream()
    tensor = filled(rank)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        tensor.mul_(2)
        communicator.all_reduce(tensor)
        tensor.add_(1)
    side.synchronize()
    assert bool((tensor == 7).all())
    for stream in (side, side.cuda_stream):
        tensor = filled(rank)
        side.wait_stream(torch.cuda.current_stream())
        communicator.all_reduce(tensor, stream=stream).wait()
        assert bool((tensor == 3).all())
    communicator.close()
    return 0


def test_the_current_stream_is_taken() -> None:
    ranks.succeeded(ranks.run(2, streams))


def graphs(rank: int, world: int, name: str) -> int:
    communicator = joined(rank, world, name)
    tensor = filled(rank)
    # As torch asks for: what is captured has run before on another stream.
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        communicator.all_reduce(tensor.clone())
    torch.cuda.current_stream().wait_stream(side)
    graph, issued = torch.cuda.CUDAGraph(), []
    with torch.cuda.graph(graph):
        for _ in range(122):
            issued.append(communicator.all_reduce(tensor, op="max"))
            tensor.add_(1)
    assert {each.state for each in issued} == {"captured"} and issued[-1].position == 121
    for turn in range(1, 4):
        tensor.fill_(rank)
        graph.replay()
        torch.cuda.synchronize()
        communicator.check()
        assert bool((tensor == world - 1 + 122).all()), turn
    communicator.all_reduce(tensor).wait()
    communicator.close()
    del graph
    return 0


def test_graphs() -> None:
    ranks.succeeded(ranks.run(2, graphs))


def refusals(rank: int, world: int, name: str) -> int:
    communicator = joined(rank, world, name)
    for tensor, kind, case in [
        (filled(rank).view(3, 7168).t(), lanesum.TensorError, "strided"),
        (filled(rank).double(), lanesum.TensorTypeError, "dtype"),
        (filled(rank).requires_grad_(), lanesum.TensorError, "requires_grad"),
        (filled(rank).view(3, 7168).to_sparse(), lanesum.TensorError, "sparse"),
    ]:
        with pytest.raises(kind) as told:
            communicator.all_reduce(tensor)
        assert told.value.kind == case and told.value.hint
    with pytest.raises(lanesum.DeviceError):
        communicator.all_reduce(filled(rank), out=torch.empty(3 * 7168, dtype=torch.bfloat16))
    host = numpy.ones(5, numpy.float32)
    communicator.all_reduce(host)
    communicator.close()
    with lanesum.Communicator(rank, world, name + "-host") as hosts, pytest.raises(lanesum.RefusedError, match="hint"):
        hosts.all_reduce(filled(rank))
    return 0


def test_refusals() -> None:
    ranks.succeeded(ranks.run(1, refusals))


def of_group(rank: int, world: int, name: str, port: int) -> list[Any]:
    import torch.distributed as dist

    torch.cuda.set_device(rank % torch.cuda.device_count())
    torch.cuda.init()
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
    with lanesum.Communicator.from_torch() as communicator:
        tensor = filled(rank)
        communicator.all_reduce(tensor).wait()
        device = communicator.device
    dist.destroy_process_group()
    return [device == torch.cuda.current_device(), tensor[0].item()]


def test_a_process_group_brings_its_gpus() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    assert ranks.succeeded(ranks.run(2, of_group, port)) == [[True, 3.0]] * 2


def killed(rank: int, world: int, name: str) -> Any:
    communicator = joined(rank, world, name)
    tensor = filled(rank)
    communicator.all_reduce(tensor).wait()
    communicator.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    started = time.monotonic()
    with pytest.raises(lanesum.FaultError) as told:
        while True:
            communicator.all_reduce(tensor).wait()
    assert time.monotonic() - started < 10 and bool(tensor.isnan().all())
    return told.value


def test_a_killed_rank_is_named() -> None:
    outcomes = ranks.run(2, killed)
    (error,) = ranks.succeeded(outcomes[:1])
    assert error.ranks == (1,)
