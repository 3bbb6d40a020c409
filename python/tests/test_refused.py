"""What can be wrong with what a caller gives: a specific exception with a remedy, and the memory untouched."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import lanesum
import numpy
import pytest
import ranks
import test_cuda


@pytest.fixture
def alone() -> Iterator[lanesum.Communicator]:
    with lanesum.Communicator(0, 1, ranks.name()) as communicator:
        yield communicator


class Lying:
    """Says what it is told to say."""

    def __init__(self, **interface: Any) -> None:
        self.__array_interface__ = interface


class LyingMore:
    __array_interface__ = 7


def read_only() -> Any:
    array = numpy.ones(3, numpy.float32)
    array.flags.writeable = False
    return array


class ReadOnlyDlpack:
    def __dlpack__(self, **words: Any) -> Any:
        return read_only().__dlpack__(**words)

    def __dlpack_device__(self) -> Any:
        return read_only().__dlpack_device__()


class Liar:
    """Names another device than its capsule."""

    def __dlpack__(self, **words: Any) -> Any:
        return numpy.ones(3, numpy.float32).__dlpack__(**words)

    def __dlpack_device__(self) -> Any:
        return (1, 5)


class NoCapsule(Liar):
    def __dlpack__(self, **words: Any) -> Any:
        return "capsule"

    def __dlpack_device__(self) -> Any:
        return (1, 0)


class Elsewhere(Liar):
    """On an AMD GPU."""

    def __dlpack_device__(self) -> Any:
        return (10, 0)


class NoPair(Liar):
    """Its device is a word."""

    def __dlpack_device__(self) -> Any:
        return "cpu"


class NoHandle:
    """Its stream is a word."""

    __cuda_array_interface__ = {
        "typestr": "<f4",
        "shape": (3,),
        "data": (4096, False),
        "version": 3,
        "stream": "default",
    }


def big_endian_bfloat16() -> Any:
    bfloat16 = numpy.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    return numpy.ones(3, bfloat16).byteswap().view(bfloat16.newbyteorder(">"))


def floats(*shape: int) -> Any:
    return numpy.ones(shape, numpy.float32)


BAD: dict[str, tuple[Callable[[], Any], type[lanesum.Error], str]] = {
    "a list": (lambda: [1.0, 2.0], lanesum.TensorTypeError, "no_tensor"),
    "None": (lambda: None, lanesum.TensorTypeError, "no_tensor"),
    "a scalar": (lambda: numpy.float32(1), lanesum.TensorTypeError, "scalar"),
    "bytes": (lambda: bytes(8), lanesum.TensorTypeError, "no_tensor"),
    "float64": (lambda: numpy.ones(3), lanesum.TensorTypeError, "dtype"),
    "int32": (lambda: numpy.ones(3, numpy.int32), lanesum.TensorTypeError, "dtype"),
    "big-endian": (lambda: numpy.ones(3, ">f4"), lanesum.TensorTypeError, "dtype"),
    "big-endian bfloat16": (big_endian_bfloat16, lanesum.TensorTypeError, "dtype"),
    "two bytes of anything": (lambda: numpy.zeros(3, "V2"), lanesum.TensorTypeError, "dtype"),
    "a record": (lambda: numpy.zeros(3, [("a", "f4")]), lanesum.TensorTypeError, "dtype"),
    "objects": (lambda: numpy.array([None]), lanesum.TensorTypeError, "dtype"),
    "every second element": (lambda: floats(8)[::2], lanesum.TensorError, "strided"),
    "backwards": (lambda: floats(8)[::-1], lanesum.TensorError, "strided"),
    "a transposed matrix": (lambda: floats(3, 4).T, lanesum.TensorError, "strided"),
    "one element many times": (lambda: numpy.broadcast_to(floats(1), 8), lanesum.TensorError, "strided"),
    "read-only": (read_only, lanesum.TensorError, "read_only"),
    "read-only dlpack": (ReadOnlyDlpack, lanesum.TensorError, "read_only"),
    "a device that is not the capsule's": (Liar, lanesum.TensorError, "protocol"),
    "no capsule": (NoCapsule, lanesum.TensorError, "protocol"),
    "another vendor's GPU": (Elsewhere, lanesum.DeviceError, "place"),
    "a device that is no pair": (NoPair, lanesum.TensorError, "protocol"),
    "a stream that is no handle": (NoHandle, lanesum.TensorError, "protocol"),
    "a masked array": (
        lambda: numpy.ma.masked_array(floats(3), mask=[True, False, False]),
        lanesum.TensorTypeError,
        "masked",
    ),
    "no shape": (lambda: Lying(typestr="<f4", data=(1, False)), lanesum.TensorError, "protocol"),
    "data of another kind": (lambda: Lying(typestr="<f4", shape=(1,), data=b"1234"), lanesum.TensorError, "protocol"),
    "a shape of another kind": (lambda: Lying(typestr="<f4", shape=3, data=(1, False)), lanesum.TensorError, "protocol"),
    "an interface of another kind": (LyingMore, lanesum.TensorError, "protocol"),
    "a shape that claims more than memory": (
        lambda: Lying(typestr="<f4", shape=range(2**40), data=(1, False)),
        lanesum.TensorError,
        "protocol",
    ),
    "a negative length": (lambda: Lying(typestr="<f4", shape=(-1,), data=(1, False)), lanesum.TensorError, "protocol"),
    "more than memory": (
        lambda: Lying(typestr="<f4", shape=(2**62, 2**62), data=(1, False)),
        lanesum.TensorError,
        "protocol",
    ),
    "more bytes than memory": (
        lambda: Lying(typestr="<f4", shape=(2**61,), data=(1, False)),
        lanesum.TensorError,
        "protocol",
    ),
    "more than a process has": (
        lambda: Lying(typestr="<f4", shape=(2**60,), data=(64, False)),
        lanesum.TensorError,
        "too_large",
    ),
    "null": (lambda: Lying(typestr="<f4", shape=(1,), data=(0, False)), lanesum.TensorError, "null"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_tensor_is_refused_with_a_remedy(alone: lanesum.Communicator, what: str) -> None:
    make, kind, case = BAD[what]
    tensor = make()
    with pytest.raises(kind) as told:
        alone.all_reduce(tensor)
    assert told.value.kind == case and "; hint: " in str(told.value) and told.value.hint
    assert isinstance(told.value, lanesum.RefusedError) and told.value.ranks == ()
    if tensor is not None:
        with pytest.raises(lanesum.RefusedError):
            alone.all_reduce(floats(3), out=tensor)
    # Nothing happened, and the next call is the first.
    assert alone.all_reduce(floats(3)).ordinal == 0


def test_outputs_that_do_not_fit_are_refused(alone: lanesum.Communicator) -> None:
    whole = floats(10)
    for tensor, out, case in [
        (floats(3), floats(4), "lengths"),
        (floats(3), numpy.ones(3, numpy.float16), "dtypes"),
        (whole[:6], whole[4:], "overlap"),
    ]:
        with pytest.raises(lanesum.TensorError) as told:
            alone.all_reduce(tensor, out=out)
        assert told.value.kind == case and told.value.hint
    alone.all_reduce(whole, out=whole)
    alone.all_reduce(read_only(), out=floats(3))


def test_words_and_numbers_that_make_no_sense(alone: lanesum.Communicator) -> None:
    tensor = floats(3)
    with pytest.raises(lanesum.PlanError, match='no operation named "mean".*hint'):
        alone.all_reduce(tensor, op="mean")  # type: ignore[arg-type]
    for stream in ("stream", 1.5, object(), -1, SimpleNamespace(ptr="0"), SimpleNamespace(__cuda_stream__=lambda: 7)):
        with pytest.raises(lanesum.TensorTypeError) as told:
            alone.all_reduce(tensor, stream=stream)
        assert told.value.kind == "no_stream"
    with pytest.raises(lanesum.TensorError) as told:
        alone.all_reduce(tensor, stream=0)
    assert told.value.kind == "host_stream"
    for label, kind in [(-1, ValueError), (2**64, ValueError), ("one", TypeError), (1.5, TypeError)]:
        with pytest.raises(kind, match="`label`.*hint"):
            alone.all_reduce(tensor, label=label)
    for color, key in [(-1, 0), (0, -1), (2**32, 0), (0, 2**32)]:
        with pytest.raises(ValueError, match="`(color|key)` can't be .*hint"):
            alone.split(color, key)
    with pytest.raises(TypeError, match="`color` is a whole number, not a str; hint"):
        alone.split("red")  # type: ignore[arg-type]
    with pytest.raises(lanesum.RefusedError) as told:
        alone.deadline = 0.0
    assert told.value.kind == "deadline"
    for seconds in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="hint"):
            alone.deadline = seconds


@pytest.mark.parametrize(
    ("words", "kind", "match"),
    [
        ({"engine": "gpu"}, lanesum.PlanError, "no engine named"),
        ({"algorithm": "fast"}, lanesum.PlanError, "no algorithm named"),
        ({"path": "nvlink"}, lanesum.PlanError, "no path named"),
        ({"tree": "0+0"}, lanesum.PlanError, "tree"),
        ({"staging": 5}, lanesum.PlanError, "staging"),
        ({"isa": "neon9"}, lanesum.RefusedError, "neon9"),
        ({"patience": 5}, TypeError, "no option `patience`"),
        ({"deadline": "long"}, TypeError, "a deadline is a number, not a str; hint"),
        ({"device": -1}, ValueError, "`device` can't be -1; hint"),
        ({"device": "cuda:0"}, TypeError, "`device` is a whole number, not a str; hint"),
        ({"staging": -4096}, ValueError, "`staging` can't be -4096; hint"),
        ({"isa": 5}, TypeError, "`isa` is text, not a int; hint"),
        ({"engine": 5}, TypeError, "is text, not a int; hint"),
        ({"directory": 5}, TypeError, "`directory` is text, not a int; hint"),
        ({"deadline": 1e9}, lanesum.RefusedError, "deadline"),
        ({"device": 0}, lanesum.CudaError, "libcuda.so.1"),
        ({"engine": "cuda"}, lanesum.CudaError, "libcuda.so.1"),
    ],
)
def test_options_that_make_no_sense(words: dict[str, Any], kind: type[Exception], match: str) -> None:
    with pytest.raises(kind, match=match) as told:
        lanesum.Communicator(0, 1, ranks.name(), **words)
    assert not isinstance(told.value, lanesum.Error) or told.value.hint


def test_a_directory_that_there_is_not() -> None:
    with pytest.raises(lanesum.RendezvousError, match="/proc/nowhere.*hint"):
        lanesum.Communicator(0, 2, ranks.name(), directory="/proc/nowhere", setup_deadline=0.5)


def test_ranks_that_there_are_not() -> None:
    for rank, world in [(0, 0), (2, 2), (0, 17)]:
        with pytest.raises(lanesum.Error, match="hint") as told:
            lanesum.Communicator(rank, world, ranks.name(), setup_deadline=0.5)
        assert told.value.hint


def test_what_no_rank_can_be() -> None:
    for rank, world, name, match in [
        (-1, 2, "x", "`rank` can't be -1; hint: ranks count from 0"),
        (0, -2, "x", "`world` can't be -2; hint"),
        (0, 2**70, "x", "`world` can't be 1180591620717411303424; hint"),
    ]:
        with pytest.raises(ValueError, match=match):
            lanesum.Communicator(rank, world, name)
    with pytest.raises(ValueError, match="`name` can't be written in UTF-8; hint"):
        lanesum.Communicator(0, 1, "\ud800")
    for words in [("0", 1, "x"), (0, None, "x"), (0, 1, 7)]:
        with pytest.raises(TypeError, match="`(rank|world|name)` is .*hint"):
            lanesum.Communicator(*words)  # type: ignore[arg-type]


def test_gpu_memory_without_a_gpu(alone: lanesum.Communicator) -> None:
    class OnGpu:
        __cuda_array_interface__ = {"typestr": "<f4", "shape": (3,), "data": (4096, False), "version": 3}

    with pytest.raises(lanesum.RefusedError, match="attached a GPU.*hint") as told:
        alone.all_reduce(OnGpu())
    assert told.value.kind == "decision"
    with pytest.raises(lanesum.DeviceError) as device:
        alone.all_reduce(OnGpu(), out=floats(3))
    assert device.value.kind == "places"
    with lanesum.Communicator(0, 1, ranks.name(), engine="auto") as automatic:
        assert automatic.device is None and "libcuda.so.1" in (automatic.without_device or "")


def fakes(rank: int, world: int, name: str) -> list[str]:
    """The same with a stand-in for torch: what is asked of a tensor decides, whoever answers."""
    torch: Any = test_cuda.fake_torch({}, raw=True)

    class Tensor(test_cuda.FakeTensor):
        def __init__(self, **differently: Any) -> None:
            self.array = floats(3)
            self.layout, self.dtype, self.requires_grad = torch.strided, torch.float32, False
            self.device, self.dense = SimpleNamespace(type="cpu", index=None), True
            vars(self).update(differently)

        def is_contiguous(self) -> bool:
            return bool(self.dense)

        def is_neg(self) -> bool:
            return bool(vars(self).get("turned"))

        def data_ptr(self) -> int:
            return int(self.array.ctypes.data)

        def numel(self) -> int:
            return 3

    seen = []
    with lanesum.Communicator(rank, world, name) as communicator:
        for differently in (
            {"requires_grad": True},
            {"layout": "torch.sparse_coo"},
            {"dtype": "torch.float64"},
            {"device": SimpleNamespace(type="meta", index=None)},
            {"dense": False},
            {"turned": True},
        ):
            with pytest.raises(lanesum.TensorError, match="hint") as told:
                communicator.all_reduce(Tensor(**differently))
            seen.append(told.value.kind)
        assert communicator.all_reduce(Tensor()).ordinal == 0
    return seen


def test_what_torch_alone_knows_without_torch() -> None:
    assert ranks.succeeded(ranks.run(1, fakes)) == [
        ["requires_grad", "sparse", "dtype", "place", "strided", "negated"]
    ]


def test_what_torch_alone_knows(alone: lanesum.Communicator) -> None:
    torch = pytest.importorskip("torch")
    for tensor, kind in [
        (torch.ones(3, requires_grad=True), "requires_grad"),
        (torch.eye(3).to_sparse(), "sparse"),
        (torch.ones(3, dtype=torch.float64), "dtype"),
        (torch.ones(3, device="meta"), "place"),
        (torch.ones(3, 4).t(), "strided"),
        (torch.ones(1).expand(4), "strided"),
        (torch.tensor([1 + 2j]).conj().imag, "negated"),
    ]:
        with pytest.raises(lanesum.TensorError) as told:
            alone.all_reduce(tensor)
        assert told.value.kind == kind and told.value.hint
    # By torch's exchange API, and by the slower way that a subclass takes: the same memory, dtypes and refusals.
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for tensor in (torch.ones(3, 5, dtype=dtype), torch.nn.Parameter(torch.ones(15, dtype=dtype), False)):
            issued = alone.all_reduce(tensor)
            assert issued.bytes == 15 * dtype.itemsize and issued.output is tensor
    base = torch.arange(10.0)
    alone.all_reduce(base[2:5], out=base[5:8])
    assert base.tolist() == [0, 1, 2, 3, 4, 2, 3, 4, 8, 9]
    alone.all_reduce(torch.ones(3, requires_grad=True).detach())
    with torch.no_grad():
        alone.all_reduce(torch.ones(3, requires_grad=True))
    alone.all_reduce(torch.ones(()))
    alone.all_reduce(torch.ones(0, 7))


def test_a_signal_comes_before_the_refusal_that_it_meets(alone: lanesum.Communicator) -> None:
    class Alarm(Exception):
        pass

    def ring(*_: Any) -> None:
        raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    try:
        for _ in range(100):
            end = time.monotonic() + 2
            # Anything but the two ends the test, and so does an alarm that is lost.
            with pytest.raises(Alarm):
                signal.setitimer(signal.ITIMER_REAL, 0.0005)
                while time.monotonic() < end:
                    try:
                        alone.all_reduce([1.0])
                    except lanesum.Error:
                        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
