"""What a collective returns: torch's `Work`, for sums that another thread makes and for sums on a stream."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent import futures
from datetime import timedelta
from importlib import import_module
from typing import Any

from lanesum import ForkedError, Issued, LateError

# Not by statements: the package is typed and tested where there is no torch.
torch: Any = import_module("torch")
dist: Any = import_module("torch.distributed")

# What torch gives for "no timeout": the deadline of the group ends the wait.
_FOREVER = timedelta(0)


def refuse_children(process: int) -> None:
    """Raises in a process that is not this one but forked of it."""
    if os.getpid() != process:
        raise ForkedError(
            "this process is a forked child; the process group belongs to its parent",
            "start processes by spawn, and make a group there",
            "forked",
        )


class HostWork(dist.Work):  # type: ignore[misc]
    """A sum in the memory of the host: done already, or to be done by the group's thread."""

    def __init__(self, tensors: list[Any], pending: futures.Future[None] | None = None) -> None:
        super().__init__()
        self._tensors, self._pending = tensors, pending
        self._process = os.getpid()

    def wait(self, timeout: timedelta = _FOREVER) -> bool:
        if self._pending is not None:
            if not self._pending.done():
                refuse_children(self._process)
            seconds = timeout.total_seconds()
            if not futures.wait([self._pending], seconds if seconds > 0 else None).done:
                raise LateError(
                    f"the call has not completed in the {seconds} s that wait() was given",
                    "wait again, or without a timeout",
                    "late",
                )
            self._pending.result()
        return True

    def is_completed(self) -> bool:
        return self._pending is None or self._pending.done()

    def is_success(self) -> bool:
        return self.is_completed() and self.exception() is None

    def exception(self) -> BaseException | None:
        return self._pending.exception() if self._pending is not None and self._pending.done() else None

    def synchronize(self) -> None:
        self.wait()

    def result(self) -> list[Any]:
        return self._tensors

    def get_future(self) -> Any:
        # What is done behind a future may call again: in the group's thread it would wait for itself, and beside it the ranks'
        # calls would come in any order.
        self.wait()
        return _completed(self._tensors)


class StreamWork(dist.Work):  # type: ignore[misc]
    """A sum on a GPU: enqueued on the stream that was current. As with NCCL, to wait is to order the current stream behind it."""

    def __init__(self, check: Callable[[Any], None], issued: Issued, tensor: Any, asynchronous: bool) -> None:
        super().__init__()
        self._check, self._issued, self._tensor = check, issued, tensor
        self._event = None
        if asynchronous:
            self._event = torch.cuda.Event()
            self._event.record(torch.cuda.current_stream(tensor.device))

    def wait(self, timeout: timedelta = _FOREVER) -> bool:
        if self._event is not None:
            torch.cuda.current_stream(self._tensor.device).wait_event(self._event)
        if self._issued.state == "enqueued":
            # What earlier calls have met meanwhile is told here; this one may still run.
            self._check(self._tensor.device)
        return True

    def is_completed(self) -> bool:
        return self._issued.state == "captured" or self._issued.poll()

    def is_success(self) -> bool:
        return self.exception() is None and self.is_completed()

    def exception(self) -> BaseException | None:
        try:
            self.is_completed()
        except Exception as error:
            return error
        return None

    def synchronize(self) -> None:
        self.wait()

    def result(self) -> list[Any]:
        return [self._tensor]

    def get_future(self) -> Any:
        self.wait()
        return _completed([self._tensor])


class AllWork(dist.Work):  # type: ignore[misc]
    """Several pieces of work as one."""

    def __init__(self, works: list[Any], tensors: list[Any]) -> None:
        super().__init__()
        self._works, self._tensors = works, tensors

    def wait(self, timeout: timedelta = _FOREVER) -> bool:
        if timeout <= _FOREVER:
            # Of torch's own, not all take a timeout of zero for none.
            return all([work.wait() for work in self._works])
        end = time.monotonic() + timeout.total_seconds()
        # What is left, and a moment for work that is done.
        return all([work.wait(timedelta(seconds=max(end - time.monotonic(), 0.001))) for work in self._works])

    def is_completed(self) -> bool:
        return all(work.is_completed() for work in self._works)

    def is_success(self) -> bool:
        return all(work.is_success() for work in self._works)

    def exception(self) -> Any:
        return next((error for error in (work.exception() for work in self._works) if error is not None), None)

    def synchronize(self) -> None:
        self.wait()

    def result(self) -> list[Any]:
        return self._tensors

    def get_future(self) -> Any:
        self.wait()
        return _completed(self._tensors)


def _completed(tensors: list[Any]) -> Any:
    """A future that is done. On GPUs it records the current streams, and those of who waits for it follow."""
    devices = sorted({tensor.device for tensor in tensors if tensor.device.type == "cuda"}, key=str)
    future = torch.futures.Future(devices=devices) if devices else torch.futures.Future()
    future.set_result(tensors)
    return future
