"""What the tests of the plug-ins share: a group of gloo, and the lines that were logged."""

from __future__ import annotations

import logging
import socket
from typing import Any


class Lines(logging.Handler):
    """Keeps what a logger is told at INFO and above."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.all: list[str] = []

    def listen(self, name: str) -> None:
        logger = logging.getLogger(name)
        logger.setLevel(logging.INFO)
        logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.all.append(record.getMessage())


def addresses() -> str:
    """Where the ranks of a group of torch.distributed meet."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{listener.getsockname()[1]}"


def group_of(rank: int, world: int, address: str) -> Any:
    """The default group, of gloo."""
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=world)
    return dist.group.WORLD
