"""Memory, streams and graphs of a GPU through the driver's own functions, for tests without an array library.

Works on the stand-in as on a real driver.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import POINTER, byref, c_int, c_int64, c_size_t, c_uint8, c_uint16, c_uint64, c_void_p
from types import SimpleNamespace
from typing import Any

import numpy

CUDA = 2


class Gpu:
    """One device, whose primary context is current from then on."""

    def __init__(self, ordinal: int) -> None:
        self.ordinal = ordinal
        self.library = ctypes.CDLL("libcuda.so.1")
        device, context = c_int(), c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", byref(device), ordinal)
        self.call("cuDevicePrimaryCtxRetain", byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *arguments: Any) -> None:
        code = getattr(self.library, name)(*arguments)
        assert code == 0, f"{name}: {code}"

    def stream(self) -> int:
        stream = c_void_p()
        self.call("cuStreamCreate", byref(stream), 1)
        return stream.value or 0

    def synchronize(self, stream: int) -> None:
        self.call("cuStreamSynchronize", c_void_p(stream))

    def capture(self, stream: int, work: Callable[[], Any]) -> Callable[[], None]:
        """What launches the graph of the work."""
        graph, executable = c_void_p(), c_void_p()
        self.call("cuStreamBeginCapture_v2", c_void_p(stream), 1)
        work()
        self.call("cuStreamEndCapture", c_void_p(stream), byref(graph))
        self.call("cuGraphInstantiateWithFlags", byref(executable), graph, c_uint64(0))
        return lambda: self.call("cuGraphLaunch", executable, c_void_p(stream))


class Memory:
    """A copy of an array on a GPU. It has no interface of its own: see the functions below."""

    def __init__(self, gpu: Gpu, array: Any) -> None:
        self.gpu, self.dtype, self.shape, self.nbytes = gpu, array.dtype, array.shape, array.nbytes
        address = c_uint64()
        gpu.call("cuMemAlloc_v2", byref(address), c_size_t(max(array.nbytes, 1)))
        self.address = address.value
        self.write(array)

    def write(self, array: Any) -> None:
        if array.nbytes:
            self.gpu.call("cuMemcpyHtoD_v2", c_uint64(self.address), c_void_p(array.ctypes.data), c_size_t(array.nbytes))

    def read(self) -> Any:
        array = numpy.empty(self.shape, self.dtype)
        if array.nbytes:
            self.gpu.call("cuMemcpyDtoH_v2", c_void_p(array.ctypes.data), c_uint64(self.address), c_size_t(array.nbytes))
        return array


def interface(memory: Memory, stream: int | None = None, device: int | None = None, **words: Any) -> Any:
    """As CuPy and Numba show memory."""
    shown = {
        "shape": memory.shape,
        "typestr": memory.dtype.str,
        "data": (memory.address, False),
        "version": 3,
        "stream": stream,
        **words,
    }
    view = SimpleNamespace(__cuda_array_interface__=shown, dtype=memory.dtype)
    if device is not None:
        view.__dlpack_device__ = lambda: (CUDA, device)
    return view


class DLTensor(ctypes.Structure):
    """From the specification, beside the layout that is tested."""

    _fields_ = [
        ("data", c_void_p),
        ("device_type", c_int),
        ("device_id", c_int),
        ("ndim", c_int),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


class DLManagedTensor(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", c_void_p), ("deleter", c_void_p)]


class DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("tensor", DLTensor),
    ]


class Dlpack:
    """As JAX shows memory: DLPack alone. `streams` are those that it was asked to let wait."""

    def __init__(self, memory: Memory, versioned: bool = True, flags: int = 0, offset: int = 0, major: int = 1) -> None:
        self.memory, self.versioned, self.streams = memory, versioned, list[Any]()
        code, bits = {"bfloat16": (4, 16), "float16": (2, 16), "float32": (2, 32)}.get(memory.dtype.name, (0, 64))
        self.shape = (c_int64 * max(len(memory.shape), 1))(*memory.shape)
        data = memory.address - offset
        tensor = DLTensor(data, CUDA, memory.gpu.ordinal, len(memory.shape), code, bits, 1, self.shape, None, offset)
        if versioned:
            self.managed: Any = DLManagedTensorVersioned(major, 1, None, None, flags, tensor)
        else:
            self.managed = DLManagedTensor(tensor, None, None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, self.memory.gpu.ordinal

    def __dlpack__(self, *, stream: Any = None, max_version: Any = "old") -> Any:
        if not self.versioned and max_version != "old":
            raise TypeError("unexpected keyword argument 'max_version'")
        self.streams.append(stream)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [c_void_p, ctypes.c_char_p, c_void_p]
        return new(ctypes.addressof(self.managed), NAMES[self.versioned], None)


# Capsules keep the addresses of their names.
NAMES = {True: b"dltensor_versioned", False: b"dltensor"}
