"""Rank processes that stay for many tests, and process groups of torch between them."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import socket
from collections.abc import Callable, Iterator
from datetime import timedelta
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any

import ranks

# torch's timeout for groups of tests: the longest that a rank may be waited for.
TIMEOUT = timedelta(seconds=40)


class Crew:
    """Ranks that do one piece of work after the other. One that ends or hangs costs the crew, and the next work has a new one."""

    def __init__(self, world: int) -> None:
        self.world = world
        self._members: list[tuple[Any, Any]] = []

    def do(self, work: Callable[..., Any], *arguments: Any) -> list[Any]:
        """What `work(rank, world, port, *arguments)` returns on each rank, or raises the first that is raised."""
        if not self._members:
            self._start()
        job = str(free_port())
        for _, pipe in self._members:
            pipe.send((work, job, arguments))
        outcomes = [_outcome(pipe) for _, pipe in self._members]
        if any(isinstance(outcome, ranks.Died) for outcome in outcomes):
            self.end()
        return ranks.succeeded(outcomes)

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        for rank in range(self.world):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, rank, self.world), daemon=True)
            process.start()
            theirs.close()
            self._members.append((process, ours))

    def end(self) -> None:
        for _, pipe in self._members:
            pipe.close()
        for process, _ in self._members:
            process.join(5)
            if process.is_alive():
                os.kill(process.pid, signal.SIGKILL)
                process.join()
        self._members = []

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, _: TracebackType | None) -> None:
        self.end()


def _outcome(pipe: Any) -> Any:
    try:
        return pipe.recv() if pipe.poll(ranks.LONGEST) else ranks.Died(None)
    except EOFError:
        return ranks.Died(None)


def _serve(pipe: Connection, rank: int, world: int) -> None:
    with contextlib.suppress(EOFError):
        while True:
            work, job, arguments = pipe.recv()
            pipe.send(ranks.attempt(work, rank, world, job, arguments))


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextlib.contextmanager
def grouped(rank: int, world: int, port: str, backend: str = "lanesum", **options: Any) -> Iterator[Any]:
    """torch.distributed, with a default group."""
    import lanesum.torch  # noqa: F401
    import torch.distributed as dist

    address = f"tcp://127.0.0.1:{port}"
    options.setdefault("timeout", TIMEOUT)
    dist.init_process_group(backend, init_method=address, rank=rank, world_size=world, **options)
    try:
        yield dist
        # The first rank has the store: none may need it any more.
        dist.barrier()
    finally:
        dist.destroy_process_group()
