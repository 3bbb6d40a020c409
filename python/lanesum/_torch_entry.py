"""Tells torch of the backend `lanesum`, and loads nothing of it.

torch calls `register` whenever it is imported where lanesum is installed (the entry point is in pyproject.toml), so that programs need
no line of theirs. Most of these never sum: it must cost next to nothing, and may not fail the import of torch.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

NAME = "lanesum"


def register() -> None:
    """Makes `init_process_group("lanesum")` known. Doing so again has no effect."""
    # torch is being imported when it calls this, with its distributed part already there: only a torch without it has none.
    dist = sys.modules.get("torch.distributed")
    if dist is None or not dist.is_available() or NAME in dist.Backend.backend_list:
        return
    dist.Backend.register_backend(NAME, _create, extended_api=True, devices=["cpu", "cuda"])


def _create(options: Any, backend_options: Any) -> Any:
    return import_module("lanesum.torch._group").create(options, backend_options)
