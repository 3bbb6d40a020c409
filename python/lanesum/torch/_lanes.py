"""lanesum's part of a group: one communicator for the memory of the host, one for a GPU's, each joined at its first sum.

All ranks make the same calls, so they join together, and a group that never sums costs nothing.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import threading
from collections.abc import Callable, Iterable
from concurrent import futures
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from lanesum import ClosedError, Communicator, EnvironmentVariableError, FaultError, Issued, PoisonedError, RendezvousError, _groups, enabled, policy
from lanesum.torch._work import refuse_children

LOG = logging.getLogger("lanesum.torch")

# The longest that a communicator takes (LANESUM_DEADLINE_MS in docs/environment.md), and the most ranks that it has.
LONGEST = timedelta(days=24)
MOST_RANKS = 16


@dataclass(frozen=True)
class Wish:
    """What the environment of a rank says."""

    against: str | None
    """Why lanesum may not run."""
    fastest: bool
    """Whether NCCL has what it is predicted to sum faster."""

    @classmethod
    def read(cls) -> tuple[Wish, EnvironmentVariableError | None]:
        """The wish, and what is wrong with the environment: then nobody's sums are lanesum's."""
        try:
            off = None if enabled() else "the environment turns it off by LANESUM"
            return cls(off, policy() == "fastest"), None
        except EnvironmentVariableError as error:
            return cls(error.cause, False), error


def meeting(store: Any, rank: int, world: int, own: Wish) -> tuple[str | None, str | None]:
    """The name that the group's ranks meet by; or None, and why lanesum can't serve the group. All ranks call it, and get the same."""
    if world > MOST_RANKS:
        return None, f"it has {world} ranks, more than {MOST_RANKS}"
    store.set(f"lanesum/{rank}", json.dumps((*_groups.own_word("torch"), own.against, own.fastest)))
    words = [json.loads(store.get(f"lanesum/{peer}")) for peer in range(world)]
    for peer, (_, _, against, _) in enumerate(words):
        if against is not None:
            return None, f"rank {peer}: {against}"
    if len({fastest for _, _, _, fastest in words}) > 1:
        return None, "the ranks have different policies (LANESUM_POLICY)"
    try:
        return _groups.meeting([(name, host) for name, host, _, _ in words]), None
    except RendezvousError as error:
        return None, error.cause


def closed() -> ClosedError:
    return ClosedError(
        "the process group is destroyed", "call torch.distributed.init_process_group() again", "closed"
    )


class Worker:
    """A thread that does one piece of work after the other. Nobody waits for it when the process ends: its peers are told by that."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[tuple[futures.Future[None], Callable[[], None]] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._leaves = False
        self._thread = threading.Thread(target=self._run, name="lanesum", daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[], None]) -> futures.Future[None]:
        """Does the work behind all that was submitted; where the thread leaves, it ends with an error at once."""
        future: futures.Future[None] = futures.Future()
        with self._lock:
            if self._leaves:
                future.set_exception(closed())
            else:
                self._work.put((future, work))
        return future

    def leave(self) -> None:
        """Lets the thread end behind what was submitted."""
        with self._lock:
            self._leaves = True
            self._work.put(None)

    def end(self) -> None:
        """Waits for all that was submitted."""
        self.leave()
        self._thread.join()

    def _run(self) -> None:
        for future, work in iter(self._work.get, None):
            try:
                work()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(None)


class Lanes:
    """Joins and calls the communicators, one call at a time; asynchronous ones of the host on a thread, in their order."""

    def __init__(self, group: str, name: str, rank: int, world: int, timeout: timedelta) -> None:
        self._group, self._name, self._rank, self._world = group, name, rank, world
        self._deadline = min(timeout, LONGEST).total_seconds()
        self._communicators: dict[str, Communicator] = {}
        self._lock = threading.RLock()
        self._worker: Worker | None = None
        self._last: futures.Future[None] | None = None
        self._closed = False
        self._process = os.getpid()

    @property
    def made(self) -> dict[str, Communicator]:
        """The communicators that there are, by type of device."""
        return dict(self._communicators)

    def of(self, device: Any) -> Communicator:
        """The communicator for tensors on this device, of torch."""
        self._refuse_children()
        with self._lock:
            if self._closed:
                raise closed()
            if device.type not in self._communicators:
                self._communicators[device.type] = self._joined(device)
            return self._communicators[device.type]

    def _refuse_children(self) -> None:
        # A forked child has neither the thread nor, perhaps, the lock.
        refuse_children(self._process)

    def _joined(self, device: Any) -> Communicator:
        name = f"{self._name}-{device.type}"
        if device.type == "cpu":
            return Communicator(self._rank, self._world, name, deadline=self._deadline)
        # `auto`: all ranks have GPUs that it serves, or it is without them on all.
        communicator = Communicator(
            self._rank, self._world, name, deadline=self._deadline, engine="auto", device=device.index
        )
        if communicator.device is None and self._rank == 0:
            LOG.warning("%s: NCCL runs all for CUDA tensors: %s", self._group, communicator.without_device)
        return communicator

    def serves(self, device: Any) -> bool:
        """Whether lanesum can sum on this device, of torch."""
        return device.type == "cpu" or self.of(device).device is not None

    def check(self, device: Any) -> None:
        """Raises what calls on a stream have met meanwhile."""
        self._refuse_children()
        with self._lock:
            if not self._closed:
                self.of(device).check()

    def on_stream(self, tensor: Any, op: Any, label: int | None) -> Issued:
        """Enqueues a sum on the current stream."""
        self._refuse_children()
        with self._lock:
            return self.of(tensor.device).all_reduce(tensor, op, label=label)

    def on_host(self, tensor: Any, op: Any, label: int | None, asynchronous: bool) -> futures.Future[None] | None:
        """Sums in the memory of the host. None: it is done."""

        def work() -> None:
            self.of(tensor.device).all_reduce(tensor, op, label=label)

        self._refuse_children()
        with self._lock:
            if not self._closed and (asynchronous or not self._idle()):
                return self._behind(work)
            work()
        return None

    def _behind(self, work: Callable[[], None]) -> futures.Future[None]:
        if self._worker is None:
            self._worker = Worker()
        self._last = self._worker.submit(work)
        return self._last

    def set_timeout(self, timeout: timedelta) -> None:
        """For calls to come. Waits for none."""

        def change() -> None:
            for communicator in self._communicators.values():
                communicator.deadline = self._deadline

        self._refuse_children()
        with self._lock:
            self._deadline = min(timeout, LONGEST).total_seconds()
            # A communicator has one caller at a time.
            if self._closed or self._idle():
                change()
            else:
                self._behind(change)

    def _idle(self) -> bool:
        return self._last is None or self._last.done()

    def close(self) -> None:
        """Leaves, behind all that was called. Doing so again has no effect, nor has it in a forked child."""
        if os.getpid() != self._process:
            return
        if self._worker is not None:
            self._worker.end()
        with self._lock:
            self._closed = True
            self._leave(self._communicators)

    def _leave(self, which: Iterable[str]) -> None:
        for kind in which:
            # The call that failed has said so.
            with contextlib.suppress(FaultError, PoisonedError):
                self._communicators[kind].close()

    def abandon(self) -> None:
        """Leaves without waiting for anybody. The call that is under way ends by itself, at its deadline at the latest; those behind it raise."""
        if os.getpid() != self._process:
            return
        self._closed = True
        if self._worker is not None:
            self._worker.leave()
        if self._lock.acquire(blocking=False):
            try:
                if self._idle():
                    # Its peers learn of it at once. A GPU's would wait for what is on its streams.
                    self._leave(kind for kind in self._communicators if kind == "cpu")
            finally:
                self._lock.release()
