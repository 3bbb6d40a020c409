"""Who runs what: the one list of all that torch can ask of a process group.

The methods of the group's class are made from it, and a test compares it with torch. What torch has and the list has not raises.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class Runner(Enum):
    """Who runs a collective."""

    LANESUM = "lanesum"
    """lanesum: float32, float16 and bfloat16 by SUM, MAX and MIN; all else of it as DELEGATE."""
    DELEGATE = "delegate"
    """Gloo for tensors in the memory of the host, NCCL for those of a GPU."""
    GLOO = "gloo"
    """Gloo: it is about processes, not tensors."""


COLLECTIVES: Final[dict[str, Runner]] = {
    "allreduce": Runner.LANESUM,
    "allreduce_coalesced": Runner.LANESUM,
    "barrier": Runner.GLOO,
    "monitored_barrier": Runner.GLOO,
    "broadcast": Runner.DELEGATE,
    "reduce": Runner.DELEGATE,
    "scatter": Runner.DELEGATE,
    "gather": Runner.DELEGATE,
    "allgather": Runner.DELEGATE,
    "allgather_coalesced": Runner.DELEGATE,
    "reduce_scatter": Runner.DELEGATE,
    "alltoall": Runner.DELEGATE,
    "send": Runner.DELEGATE,
    "recv": Runner.DELEGATE,
    "recv_anysource": Runner.DELEGATE,
    # Of whole tensors instead of lists, by the names that torch has given them over time.
    "gather_into_tensor": Runner.DELEGATE,
    "gather_single": Runner.DELEGATE,
    "_allgather_base": Runner.DELEGATE,
    "all_gather_single": Runner.DELEGATE,
    "allgather_into_tensor_coalesced": Runner.DELEGATE,
    "all_gather_single_coalesced": Runner.DELEGATE,
    "_reduce_scatter_base": Runner.DELEGATE,
    "reduce_scatter_single": Runner.DELEGATE,
    "reduce_scatter_tensor_coalesced": Runner.DELEGATE,
    "reduce_scatter_single_coalesced": Runner.DELEGATE,
    "alltoall_base": Runner.DELEGATE,
    "all_to_all_single": Runner.DELEGATE,
}

# What is no collective: torch's own, or overridden in the class.
PLUMBING: Final[frozenset[str]] = frozenset(
    {
        "abort",
        "bound_device_id",
        "boxed",
        "get_backend",
        "get_group_store",
        "group_desc",
        "group_name",
        "name",
        "rank",
        "set_timeout",
        "shutdown",
        "size",
        "supports_reconfigure",
        "supports_window",
        "unbox",
        "use_pg_for_symm_mem_rendezvous",
    }
)

# What nobody runs here, and why: torch's own would bypass this class, or ask one backend for all.
REFUSED: Final[dict[str, str]] = {
    "split_group": "make the group with torch.distributed.new_group()",
    "merge_remote_group": "make the group with torch.distributed.new_group()",
    "reconfigure": "destroy the group and make a new one",
    "get_reconfigure_handle": "destroy the group and make a new one",
    "new_window": "use a group of another backend for one-sided access",
    "register_abort_hook": "use a group of another backend",
    "unregister_abort_hook": "use a group of another backend",
    "register_pre_hook": "use a group of another backend",
    "unregister_pre_hook": "use a group of another backend",
    "register_post_hook": "use a group of another backend",
    "unregister_post_hook": "use a group of another backend",
}


def unknown(names: set[str]) -> set[str]:
    """Those of torch's names that no list has. Private ones are torch's own, but for those in the table."""
    known = COLLECTIVES.keys() | PLUMBING | REFUSED.keys()
    return {name for name in names if not name.startswith("_")} - known
