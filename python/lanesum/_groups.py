"""Who this process is, as other libraries' groups say it.

Ranks meet by a name that rank 0 makes up and the group passes on, so that no two jobs, and no two communicators of a job, can
have the same.
"""

from __future__ import annotations

import secrets
import sys
from importlib import import_module
from typing import Any

from lanesum._errors import RendezvousError

# What one rank tells the others: a name of its own, and which host it is on.
Word = tuple[str, str]


def own_word(prefix: str) -> Word:
    """What this rank tells the others."""
    # The kernel makes it up at each start: hosts that have the same name differ in it.
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            host = file.read().strip()
    except OSError:
        host = "unknown"
    return f"{prefix}-{secrets.token_hex(8)}", host


def meeting(words: list[Word]) -> str:
    """The name by which the ranks that said these words meet; they are of one host, or all get the same error."""
    name, host = words[0]
    elsewhere = tuple(rank for rank, (_, other) in enumerate(words) if other != host)
    if elsewhere:
        raise RendezvousError(
            f"ranks {', '.join(map(str, elsewhere))} of the group are on another host than rank 0",
            "make a group of the ranks of each host, and a communicator of each of these",
            "hosts",
            elsewhere,
        )
    return name


def of_torch(group: Any) -> tuple[int, int, str, int | None]:
    """Rank, number of ranks, name, and the current GPU if the process uses CUDA. All ranks of the group call it."""
    # Not by a statement: the package is typed and tested where there is no torch.
    torch: Any = import_module("torch")
    dist: Any = import_module("torch.distributed")

    if not dist.is_initialized():
        raise RendezvousError(
            "torch.distributed has no process group",
            "call torch.distributed.init_process_group() first, or use Communicator.from_env()",
            "no_group",
        )
    rank, world = dist.get_rank(group), dist.get_world_size(group)
    if rank < 0:
        raise RendezvousError(
            "this process is not a rank of the group", "call it on the ranks of the group only", "no_member"
        )

    def gather(word: Word) -> list[Word]:
        words: list[Any] = [None] * world
        dist.all_gather_object(words, word, group=group)
        return words

    name = meeting(gather(own_word("torch")))
    # Behind what all ranks do together: the others of a rank that fails here learn in the meeting that it is missing.
    device = torch.cuda.current_device() if torch.cuda.is_initialized() else None
    return rank, world, name, device


def of_mpi(comm: Any) -> tuple[int, int, str]:
    """Rank, number of ranks and name. All ranks of the communicator call it."""
    if "mpi4py" not in sys.modules and not hasattr(comm, "allgather"):
        raise TypeError("this is no communicator of mpi4py; hint: give mpi4py.MPI.COMM_WORLD, or one made from it")
    return comm.Get_rank(), comm.Get_size(), meeting(comm.allgather(own_word("mpi")))
