"""Gloo, through PyTorch, as an engine of `lanesum bench`: all_reduce by sum, in place, on private buffers, back to back.

Usage: lanesum launch -n RANKS -- python3 gloo_all_reduce.py FOLDER CPUS SECONDS

Pipes, orders, answers and the loop are those of mpi_all_reduce.c, which says what they are: change all together.
"""

import json
import os
import signal
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
MASK = 0xFFFFFFFF


def say(event, **more):
    print(json.dumps({"event": event, **more}), flush=True)


def number(rank, indices, salt):
    """Whole numbers below 16: sums of sixteen ranks are exact in every type and in every order."""
    mixed = ((indices ^ (rank * 0x9E3779B9 & MASK) ^ (salt * 0x85EBCA6B & MASK)) * 0x2C1B3C6D) & MASK
    return (((mixed ^ (mixed >> 15)) * 0x297A2D39) & MASK) >> 28


def check(buffer, salt):
    rank, world = dist.get_rank(), dist.get_world_size()
    indices = torch.arange(buffer.numel(), dtype=torch.int64)
    buffer.copy_(number(rank, indices, salt))
    dist.all_reduce(buffer)
    expected = sum(number(other, indices, salt) for other in range(world)).to(buffer.dtype)
    wrong = torch.nonzero(buffer != expected)
    if wrong.numel():
        at = int(wrong[0])
        say("wrong", reason=f"rank {rank}: element {at} is {buffer[at]:g}, expected {expected[at]:g}")
        time.sleep(1)
        sys.exit(1)


def nearest(times, percent):
    return times[-(-len(times) * percent // 100) - 1]


def measure(dtype, elements, warm_ups, calls, salt):
    buffer = torch.empty(elements, dtype=dtype)
    check(buffer, 2 * salt & MASK)
    buffer.zero_()
    for _ in range(warm_ups):
        dist.all_reduce(buffer)
    dist.barrier()
    times = []
    for _ in range(calls):
        started = time.perf_counter_ns()
        dist.all_reduce(buffer)
        times.append((time.perf_counter_ns() - started) / 1e3)
    check(buffer, 2 * salt + 1 & MASK)
    times.sort()
    slowest = torch.tensor([nearest(times, 50), nearest(times, 99)], dtype=torch.float64)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    # Before anything is said: the next probe of the cores is not to meet it.
    del buffer
    dist.barrier()
    if dist.get_rank() == 0:
        say("point", p50=round(float(slowest[0]), 4), p99=round(float(slowest[1]), 4), algorithm=None)


def obey(order):
    dtype, _buffers, *numbers = order.split()
    if dtype != "f32":
        # Not every version sums the others: this asks before anybody is timed, and alike on all ranks.
        try:
            dist.all_reduce(torch.zeros(1, dtype=DTYPES[dtype]))
        except (RuntimeError, KeyError) as error:
            if dist.get_rank() == 0:
                say("missing", reason=f"it has no sum of {dtype}: {str(error).splitlines()[0]}")
            return
    measure(DTYPES[dtype], *map(int, numbers))


def main():
    folder, cpus, seconds = sys.argv[1:]
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if cpus != "-":
        os.sched_setaffinity(0, {int(cpus.split(",")[rank])})
    torch.set_num_threads(1)
    with open(f"{folder}/rank-{rank}", encoding="ascii") as orders:
        dist.init_process_group(
            "gloo",
            init_method=f"file://{folder}/gloo",
            rank=rank,
            world_size=world,
            timeout=timedelta(seconds=int(seconds)),
        )
        dist.barrier()
        if rank == 0:
            say("ready", ranks=world, version=f"Gloo of PyTorch {torch.__version__}")
        for order in orders:
            signal.alarm(int(seconds))
            obey(order)
            signal.alarm(0)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
