"""Real rank processes for tests, each with its outcome: a value, an exception, or how it ended."""

from __future__ import annotations

import multiprocessing
import os
import secrets
import signal
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import pytest

# Longer than any test waits, shorter than patience.
LONGEST = 120.0


@dataclass
class Died:
    """A process that ended without a result."""

    code: int | None


@dataclass
class Raised:
    """What a process raised, instead of a result."""

    error: BaseException


def name() -> str:
    """A name that no other job has."""
    return f"pytest-{os.getpid()}-{secrets.token_hex(6)}"


def run(
    world: int, work: Callable[..., Any], *arguments: Any, environment: Mapping[str, str] | None = None
) -> list[Any]:
    """Runs `work(rank, world, name, *arguments)` in a process a rank. What becomes of each is its outcome."""
    context = multiprocessing.get_context("spawn")
    job, members = name(), []
    kept = {key: os.environ.get(key) for key in environment or {}}
    os.environ.update(environment or {})
    try:
        for rank in range(world):
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_rank, args=(theirs, work, rank, world, job, arguments))
            process.start()
            theirs.close()
            members.append((process, ours))
    finally:
        for key, value in kept.items():
            os.environ.pop(key, None) if value is None else os.environ.update({key: value})
    return [_outcome(process, pipe) for process, pipe in members]


def _rank(
    pipe: Connection, work: Callable[..., Any], rank: int, world: int, job: str, arguments: tuple[Any, ...]
) -> None:
    pipe.send(attempt(work, rank, world, job, arguments))


def attempt(work: Callable[..., Any], rank: int, world: int, job: str, arguments: tuple[Any, ...]) -> Any:
    """The outcome of the work, unless the process ends with it."""
    try:
        return work(rank, world, job, *arguments)
    except pytest.fail.Exception as error:
        # Another process can't unpickle pytest's own.
        return Raised(AssertionError(str(error)))
    except BaseException as error:
        if isinstance(error, AssertionError) and not error.args:
            # pytest rewrites those of its own process alone.
            return Raised(AssertionError(traceback.format_exc()))
        return Raised(error)


def _outcome(process: Any, pipe: Connection) -> Any:
    try:
        outcome = pipe.recv() if pipe.poll(LONGEST) else Raised(TimeoutError("the rank does not end"))
    except EOFError:
        process.join(LONGEST)
        outcome = Died(process.exitcode)
    process.join(5)
    if process.is_alive():
        os.kill(process.pid, signal.SIGKILL)
        process.join()
    return outcome


def succeeded(outcomes: list[Any]) -> list[Any]:
    """The values, if there is nothing else."""
    for outcome in outcomes:
        if isinstance(outcome, Raised):
            raise outcome.error
        assert not isinstance(outcome, Died), outcomes
    return outcomes
