"""The object that an engine holds in place of its custom all-reduce.

Engines ask `should_custom_ar` and then call `custom_all_reduce`. Here the question is the plan, compiled when the group is set
up: a function of dtype, layout and length alone, so that all ranks answer alike. The call never asks again: it sums or raises.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

from lanesum._lanesum import Communicator

_living: WeakSet[AllReduce] = WeakSet()


def check_all() -> None:
    """Raises what a replayed graph has met meanwhile in any group of this process; never waits."""
    for each in list(_living):
        each.check()


class AllReduce:
    """Sums the tensors of one group by lanesum.

    Args:
        communicator: that of the group; it is closed with this object.
        limits: for each dtype of torch that is summed, the length in bytes from which on the engine sums; None for no end.
    """

    # What engines ask of their own custom all-reduce before they use its other collectives or kernels: lanesum has none of these.
    fully_connected = False
    full_nvlink = False
    mnnvl_only = False
    mnnvl_multicast_ptr = 0
    mnnvl_lamport_ag_multicast_ptr = 0
    has_multicast = False

    def __init__(self, communicator: Communicator, limits: Mapping[Any, int | None]) -> None:
        self.communicator = communicator
        self.disabled = False
        self.original_disabled = False
        self.rank, self.world_size = communicator.rank, communicator.world_size
        self._limits = {dtype: sys.maxsize if limit is None else limit for dtype, limit in limits.items()}
        self.max_size = max(self._limits.values(), default=0)
        _living.add(self)

    def should_custom_ar(self, inp: Any) -> bool:
        """Whether lanesum sums such a tensor. All ranks have the same answer."""
        return not self.disabled and inp.nbytes < self._limits.get(inp.dtype, 0) and bool(inp.is_contiguous())

    def custom_all_reduce(self, input: Any) -> Any:  # noqa: A002 - the engines' name
        """The sum, in a new tensor; in a capture, each time that the graph runs.

        Raises:
            lanesum.Error: there is no sum. Nothing else may be taken for one.
        """
        # A method of the tensor, so that torch need not be imported here.
        out = input.new_empty(input.shape)
        self.communicator.all_reduce(input, out=out)
        return out

    @contextmanager
    def capture(self) -> Iterator[None]:
        """Around the capture of graphs and the calls that warm it up. There is nothing to register: calls are as elsewhere."""
        yield
        self.check()

    def check(self) -> None:
        """Raises what calls on a stream, or replays of a graph, have met meanwhile; never waits."""
        if not self.communicator.closed:
            self.communicator.check()

    def close(self) -> None:
        """Leaves the group. The engine sums by itself from then on."""
        self.disabled = True
        self.communicator.close()

    def should_custom_all_gather(self, inp: Any) -> bool:
        """Never: the engine gathers by itself."""
        return False

    def custom_all_gather(self, inp: Any) -> None:
        """None, by which the engine gathers by itself."""

    def should_custom_reduce_scatter(self, inp: Any) -> bool:
        """Never: the engine scatters by itself."""
        return False

    def should_mnnvl_multimem_reduce_scatter(self, inp: Any) -> bool:
        """Never: the engine scatters by itself."""
        return False

    def custom_reduce_scatter(self, inp: Any) -> None:
        """None, by which the engine scatters by itself."""
