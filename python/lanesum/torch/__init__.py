"""torch.distributed over lanesum: the backend `lanesum`, whose all_reduce is lanesum's and the rest Gloo's or NCCL's.

    import lanesum.torch
    import torch.distributed as dist

    dist.init_process_group("lanesum")

docs/torch.md has the rest.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

if find_spec("torch") is None:
    raise ImportError("lanesum.torch needs torch; hint: pip install torch, or use lanesum.Communicator without it")
if not import_module("torch.distributed").is_available():
    raise ImportError("this torch is built without torch.distributed; hint: install one with it")

from lanesum._torch_entry import register  # noqa: E402
from lanesum.torch._group import communicators, counters  # noqa: E402
from lanesum.torch._table import COLLECTIVES, Runner  # noqa: E402

register()

__all__ = ["COLLECTIVES", "Runner", "communicators", "counters", "register"]
