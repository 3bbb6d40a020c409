"""What the plug-ins log: one line for a group or a server, with what is used, what is not, and why."""

from __future__ import annotations

import logging
import multiprocessing
from collections.abc import Mapping
from typing import Any


def say(log: logging.Logger, line: str, *words: Any) -> None:
    """That lanesum does nothing: once for a server, by the process that started the others.

    A warning, since an engine loads its plug-ins before it has set up a logger that shows less.
    """
    level = logging.WARNING if multiprocessing.parent_process() is None else logging.DEBUG
    log.log(level, line, *words)


def sums(title: str, world: int, reason: str, limits: Mapping[str, int | None]) -> str:
    """That lanesum sums in a group: which dtypes up to which length, and what the engine does."""
    by_limit: dict[int | None, list[str]] = {}
    for dtype, limit in limits.items():
        by_limit.setdefault(limit, []).append(dtype)
    parts = [
        f"{', '.join(dtypes)} of {'every length' if limit is None else f'less than {limit} B'}"
        for limit, dtypes in by_limit.items()
    ]
    line = f"lanesum sums in a group of {world} ranks of {title}: {'; '.join(parts)} ({reason})"
    if any(limit is not None for limit in limits.values()):
        line += f"; longer ones are left to {title} and NCCL, which is predicted to be faster there"
    return f"{line}; other dtypes and layouts are left to {title}. LANESUM=0 turns it off"
