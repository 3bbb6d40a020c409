"""Memory of the host: every dtype, operation and way to give a tensor, on real processes."""

from __future__ import annotations

from typing import Any

import lanesum
import ml_dtypes
import numpy
import pytest
import ranks

DTYPES = {"float32": numpy.float32, "float16": numpy.float16, "bfloat16": ml_dtypes.bfloat16}
# Around frames, chunks and shards; 300,001 takes two shots.
SIZES = [0, 1, 2, 3, 7, 31, 257, 1001, 4099, 300_001]


class OnlyDlpack:
    """What speaks DLPack and nothing else."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **words: Any) -> Any:
        return self.array.__dlpack__(**words)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


class OldDlpack(OnlyDlpack):
    """The same from before versions."""

    def __dlpack__(self, *, stream: Any = None) -> Any:
        return self.array.__dlpack__(stream=stream)


class OnlyInterface:
    """What has NumPy's array interface and nothing else."""

    def __init__(self, array: Any) -> None:
        self.__array_interface__ = array.__array_interface__


def values(rank: int, size: int, dtype: Any) -> Any:
    """Whole numbers whose sums are exact in every dtype, with other signs on each rank."""
    return ((numpy.arange(size) * (rank + 3) + rank) % 17 - 8).astype(dtype)


def expected(world: int, size: int, dtype: Any, op: str) -> Any:
    inputs = numpy.stack([values(rank, size, numpy.float32) for rank in range(world)])
    combine = {"sum": numpy.sum, "max": numpy.max, "min": numpy.min}[op]
    return combine(inputs, axis=0).astype(dtype)


def everything(rank: int, world: int, name: str) -> int:
    calls = 0
    with lanesum.Communicator(rank, world, name, deadline=20) as communicator:
        for word, dtype in DTYPES.items():
            for op in ("sum", "max", "min"):
                for size in SIZES:
                    want = expected(world, size, dtype, op)
                    tensor = values(rank, size, dtype)
                    issued = communicator.all_reduce(tensor, op)
                    assert tensor.tobytes() == want.tobytes(), (word, op, size, "in place")
                    assert (issued.state, issued.bytes, issued.ordinal) == ("done", tensor.nbytes, calls)
                    assert issued.output is tensor and issued.poll() and issued.wait() is None
                    tensor, out = values(rank, size, dtype), numpy.full(size, 77, dtype)
                    issued = communicator.all_reduce(tensor, op=op, out=out, label=size)
                    assert out.tobytes() == want.tobytes(), (word, op, size, "out")
                    assert tensor.tobytes() == values(rank, size, dtype).tobytes(), "the input is only read"
                    assert issued.output is out and issued.engine == "host" and issued.epoch > 0
                    calls += 2
        assert communicator.counters()["calls"] == calls
    return calls


@pytest.mark.parametrize("world", [1, 2, 3])
def test_every_dtype_operation_and_size(world: int) -> None:
    calls = ranks.succeeded(ranks.run(world, everything))
    assert calls == [2 * 3 * 3 * len(SIZES)] * world


def ways(rank: int, world: int, name: str) -> list[str]:
    """Shapes, offsets and protocols: each sums the same numbers."""
    communicator = lanesum.Communicator(rank, world, name, deadline=20)
    want = expected(world, 24, numpy.float32, "sum")
    whole = numpy.zeros(25, numpy.float32)

    def fresh(shape: Any = 24) -> Any:
        return values(rank, 24, numpy.float32).reshape(shape)

    offset = whole[1:]
    offset[:] = fresh()
    given = {
        "a matrix": fresh((4, 6)),
        "axes of length one": fresh((1, 24, 1))[:, ::1, :],
        "a view with an offset": offset,
        "dlpack": OnlyDlpack(fresh()),
        "dlpack without versions": OldDlpack(fresh()),
        "an array interface": (owner := fresh(), OnlyInterface(owner)),
        "a column that is dense": fresh((24, 1))[:, 0],
    }
    for way, tensor in given.items():
        array = tensor
        if isinstance(tensor, tuple):
            array, tensor = tensor
        communicator.all_reduce(tensor)
        array = array.array if isinstance(array, OnlyDlpack) else array
        assert numpy.array_equal(numpy.asarray(array).reshape(-1), want), way
    scalar = numpy.array(rank + 1.0, numpy.float32)
    communicator.all_reduce(scalar)
    assert scalar.shape == () and scalar == world * (world + 1) / 2
    mixed = numpy.empty(24, numpy.float32)
    communicator.all_reduce(OnlyDlpack(fresh()), out=mixed)
    assert numpy.array_equal(mixed, want)
    communicator.close()
    return list(given)


def test_every_way_to_give_a_tensor() -> None:
    assert ranks.succeeded(ranks.run(2, ways))


def bits(rank: int, world: int, name: str) -> tuple[bytes, bytes]:
    random = numpy.random.default_rng(rank)
    with lanesum.Communicator(rank, world, name) as communicator:
        tensor = random.standard_normal(5003).astype(ml_dtypes.bfloat16)
        start = tensor.tobytes()
        communicator.all_reduce(tensor)
        return start, tensor.tobytes()


def test_sums_of_16_bits_are_rounded_once_and_equal_on_all_ranks() -> None:
    outcomes = ranks.succeeded(ranks.run(3, bits))
    inputs = [numpy.frombuffer(start, ml_dtypes.bfloat16).astype(numpy.float32) for start, _ in outcomes]
    want = ((inputs[0] + inputs[1]) + inputs[2]).astype(ml_dtypes.bfloat16).tobytes()
    assert [end for _, end in outcomes] == [want] * 3


def groups(rank: int, world: int, name: str) -> list[Any]:
    with lanesum.Communicator(rank, world, name, tree="((0+1)+2)+3") as communicator:
        assert communicator.tree == "((0+1)+2)+3"
        half = communicator.split(rank % 2, key=world - rank)
        none = communicator.split(None if rank == 0 else 1)
        channel = communicator.channel()
        communicator.barrier()
        told = [half.rank, half.world_size, none and none.world_size, channel.rank, channel.world_size]
        tensor = numpy.full(5, rank, numpy.float32)
        half.all_reduce(tensor)
        channel.all_reduce(tensor)
        for part in (half, none, channel):
            if part:
                part.close()
        return [*told, float(tensor[0])]


def test_split_and_channel() -> None:
    # Within a colour the higher rank goes first, by its key.
    want = [[1, 2, None, 0, 4, 12.0], [1, 2, 3, 1, 4, 12.0], [0, 2, 3, 2, 4, 12.0], [0, 2, 3, 3, 4, 12.0]]
    assert ranks.succeeded(ranks.run(4, groups)) == want


def torches(rank: int, world: int, name: str) -> int:
    import torch

    with lanesum.Communicator(rank, world, name) as communicator:
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            for size in (0, 1, 7, 4099):
                tensor = torch.full((size,), rank + 1, dtype=dtype)
                issued = communicator.all_reduce(tensor)
                assert issued.output is tensor and bool((tensor == 3).all())
                out = torch.empty(size, dtype=dtype)
                communicator.all_reduce(torch.full((size,), rank + 1, dtype=dtype), op="max", out=out)
                assert bool((out == 2).all())
        parameter = torch.nn.Parameter(torch.full((3,), float(rank)))
        with torch.no_grad():
            communicator.all_reduce(parameter)
        assert parameter.tolist() == [1, 1, 1]
        shared = numpy.empty(3, numpy.float32)
        communicator.all_reduce(parameter.detach(), out=shared)
        assert shared.tolist() == [2, 2, 2]
    return 0


def test_torch_tensors() -> None:
    pytest.importorskip("torch")
    ranks.succeeded(ranks.run(2, torches))


def jaxes(rank: int, world: int, name: str) -> int:
    import jax.numpy

    row = jax.jit(lambda numbers: numbers.reshape(1, -1))
    with lanesum.Communicator(rank, world, name) as communicator:
        for word, host in DTYPES.items():
            dtype = getattr(jax.numpy, word)
            array = jax.numpy.full(7, rank + 1, dtype)
            with pytest.raises(lanesum.TensorError) as refused:
                communicator.all_reduce(array)
            assert refused.value.kind == "immutable"
            out = numpy.empty(7, host)
            communicator.all_reduce(array, out=out)
            assert out.astype(numpy.float32).tolist() == [3] * 7
            for op in ("sum", "max", "min"):
                for size in (0, 1, 301, 70_001):
                    # What a compiled function returns, of two dimensions.
                    given = row(values(rank, size, host))
                    out = numpy.empty((1, size), host)
                    communicator.all_reduce(given, op, out=out)
                    want = expected(world, size, host, op)
                    assert out.tobytes() == want.tobytes(), (word, op, size)
                    # And on into JAX, and the input is as it was.
                    assert jax.numpy.array_equal(jax.numpy.asarray(out)[0], want)
                    assert numpy.asarray(given).tobytes() == values(rank, size, host).tobytes()
        scalar = numpy.empty((), numpy.float32)
        communicator.all_reduce(jax.numpy.float32(rank), out=scalar)
        assert scalar == 1
        with pytest.raises(lanesum.TensorError) as refused:
            communicator.all_reduce(numpy.ones(3, numpy.float32), out=jax.numpy.ones(3))
        assert refused.value.kind == "immutable"
        with pytest.raises(lanesum.TensorTypeError):
            communicator.all_reduce(jax.numpy.arange(3), out=numpy.empty(3, numpy.float32))
    return 0


def test_jax_arrays() -> None:
    pytest.importorskip("jax")
    ranks.succeeded(ranks.run(2, jaxes, environment={"JAX_PLATFORMS": "cpu"}))
