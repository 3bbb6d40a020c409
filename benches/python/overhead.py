"""What a call from Python takes on this rank alone: a world of one, eight elements, nothing to wait for.

    python benches/python/overhead.py

Prints one line of JSON with the nanoseconds of a call, of the fastest of seven rounds of 100,000 calls. `cargo xtask bench python`
runs it in turns with the same calls from Rust.
"""

from __future__ import annotations

import json
import os
import timeit
from collections.abc import Callable
from typing import Any

import lanesum
import numpy
import torch

CALLS, ROUNDS, ELEMENTS = 100_000, 7, 8


def nanoseconds(call: Callable[[], Any]) -> float:
    return round(min(timeit.repeat(call, number=CALLS, repeat=ROUNDS)) / CALLS * 1e9, 1)


with lanesum.Communicator(0, 1, f"overhead-{os.getpid()}") as alone:
    tensor, array = torch.ones(ELEMENTS), numpy.ones(ELEMENTS, numpy.float32)
    found = {
        "torch_ns": nanoseconds(lambda: alone.all_reduce(tensor)),
        "numpy_ns": nanoseconds(lambda: alone.all_reduce(array)),
        "empty_ns": nanoseconds(lambda: None),
        "torch": torch.__version__,
    }
print(json.dumps(found))
