"""As much of PyTorch as `gpu_peers.py` needs for its peer `nccl`: lists of numbers for tensors, and no GPU.

LANESUM_FAKE=KIND:RANK:CALL makes one rank misbehave from its sum number CALL on: `wrong` sums, or `fails`, with which its GPU
takes no more work.
"""

import os
import random
import time

KIND, RANK, CALL = (os.environ.get("LANESUM_FAKE", "none:0:0").split(":") + ["", ""])[:3]


class Dtype:
    def __init__(self, itemsize, eps):
        self.itemsize, self.eps = itemsize, eps


bfloat16, float16, float32 = Dtype(2, 2.0**-7), Dtype(2, 2.0**-10), Dtype(4, 2.0**-23)
float64, int32, uint8 = Dtype(8, 2.0**-52), Dtype(4, 1), Dtype(1, 1)


def finfo(dtype):
    return dtype


class Tensor:
    def __init__(self, data, dtype):
        self.data, self.dtype = list(data), dtype

    def to(self, dtype):
        return Tensor(self.data, dtype)

    def cuda(self):
        return self.to(self.dtype)

    def double(self):
        return self.to(float64)

    def fill_(self, value):
        self.data[:] = [value] * len(self.data)

    def copy_(self, other):
        self.data[:] = other.data

    def abs(self):
        return Tensor(map(abs, self.data), self.dtype)

    def max(self):
        return max(self.data)

    def item(self):
        return self.data[0]

    def __iadd__(self, other):
        self.data[:] = [one + more for one, more in zip(self.data, other.data, strict=True)]
        return self

    def __sub__(self, other):
        return Tensor((one - less for one, less in zip(self.data, other.data, strict=True)), self.dtype)

    def __truediv__(self, other):
        return Tensor((one / by for one, by in zip(self.data, other.data, strict=True)), self.dtype)


def tensor(data, dtype):
    return Tensor(data, dtype)


def empty(count, dtype, device=None):
    return Tensor([0.0] * count, dtype)


zeros = empty


def zeros_like(other):
    return empty(len(other.data), other.dtype)


def nan_to_num(one, nan):
    return Tensor((nan if value != value else value for value in one.data), one.dtype)


class Generator:
    def manual_seed(self, seed):
        self.random = random.Random(seed)
        return self


def randn(count, generator):
    return Tensor((generator.random.gauss(0.0, 1.0) for _ in range(count)), float32)


class cuda:
    works = True
    recorded = None

    @staticmethod
    def device_count():
        return 8

    @staticmethod
    def set_device(_):
        pass

    @staticmethod
    def synchronize():
        if not cuda.works:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

    class Stream:
        pass

    class stream:
        def __init__(self, _):
            pass

        def __enter__(self):
            pass

        def __exit__(self, *_):
            cuda.recorded = None

    class CUDAGraph:
        def replay(self):
            for call in self.calls:
                call()

    class graph(stream):
        def __init__(self, graph, **_):
            graph.calls = cuda.recorded = []

    class Event:
        def __init__(self, enable_timing):
            pass

        def record(self):
            self.at = time.monotonic()

        def synchronize(self):
            cuda.synchronize()

        def elapsed_time(self, end):
            return (end.at - self.at) * 1000.0
