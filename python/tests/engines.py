"""What the tests of the plug-ins share: a group of gloo, the lines that were logged, stand-ins."""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]


class Lines(logging.Handler):
    """Keeps what a logger is told at INFO and above."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.all: list[str] = []
        self.kept: Any = None

    def listen(self, name: str) -> None:
        logger = logging.getLogger(name)
        logger.setLevel(logging.INFO)
        logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.all.append(record.getMessage())


class Taker:
    """An all-reduce of an engine that takes every tensor, and marks it."""

    MARK = -7.0
    disabled = False

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith(("should_", "can_")):
            return lambda *_: True
        return lambda tensor: tensor * 0 + self.MARK


def addresses() -> str:
    """Where the ranks of a group of torch.distributed meet."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{listener.getsockname()[1]}"


def group_of(rank: int, world: int, address: str) -> Any:
    """The default group, of gloo."""
    dist: Any = import_module("torch.distributed")
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=world)
    return dist.group.WORLD


def entry_point(group: str) -> Callable[[], None]:
    """What the package declares for an engine's plug-ins."""
    text = (ROOT / "pyproject.toml").read_text()
    found = re.search(rf'\[project\.entry-points\."{re.escape(group)}"\]\nlanesum = "([\w.]+):(\w+)"', text)
    assert found, group
    function: Callable[[], None] = getattr(import_module(found[1]), found[2])
    return function


def fails_on(this: bool) -> AbstractContextManager[Any]:
    """Set-up that fails on this rank, and on the others when they have waited for it."""
    stack = ExitStack()
    stack.enter_context(mock.patch("lanesum.engines._join._SETUP_DEADLINE", 2.0))
    if this:
        error = OSError("no such luck")
        stack.enter_context(mock.patch("lanesum.engines._join._communicator", side_effect=error))
    return stack


def one_line(told: list[dict[str, Any]], case: str) -> tuple[Any, str]:
    """What the ranks returned, alike, and the only line, of rank 0."""
    (first, lines), (second, none) = (each[case] for each in told)
    assert first == second and len(lines) == 1 and not none, told
    return first, lines[0]
