"""What can go wrong, with the ranks to blame and what to do.

The extension module raises these, and compares its errors with them variant by variant.
"""

from __future__ import annotations


class Error(RuntimeError):
    """Any failure of lanesum. The message says what, why, and after `hint:` what to do.

    Attributes:
        cause: what went wrong, without the hint.
        hint: what to do about it, where something can be done.
        kind: a word that tells the cases of a class apart, for programs.
        ranks: the ranks that the error names, ascending; empty if it is about this rank alone.
    """

    cause: str
    hint: str | None
    kind: str
    ranks: tuple[int, ...]

    def __init__(
        self, cause: str, hint: str | None = None, kind: str = "unknown", ranks: tuple[int, ...] = ()
    ) -> None:
        # All of it are arguments, so that pickling keeps it, as between processes.
        super().__init__(cause, hint, kind, ranks)
        self.cause, self.hint, self.kind, self.ranks = cause, hint, kind, tuple(ranks)

    @property
    def rank(self) -> int | None:
        """The first rank that the error names."""
        return self.ranks[0] if self.ranks else None

    def __str__(self) -> str:
        return self.cause if self.hint is None else f"{self.cause}; hint: {self.hint}"


class EnvironmentVariableError(Error):
    """The environment does not say who this rank is."""


class RendezvousError(Error):
    """The ranks did not find each other, or did not agree."""


class PlanError(Error, ValueError):
    """There is no such word, tree or plan."""


class SegmentError(Error):
    """The shared memory could not be set up."""


class ResourceError(Error):
    """The system refused a thread or another service."""


class CudaError(Error):
    """This rank's GPU can't be used."""


class PeerDeviceError(CudaError):
    """A peer's GPU can't be used."""


class FaultError(Error):
    """The call failed after it had started: the output holds NaN, and the communicator is spent.

    `kind` is `corrupt`, `overlap` or `device`, or that of a subclass.
    """


class RankLostError(FaultError):
    """A rank ended: `kind` is `died`, `departed` or `panicked`."""


class LateError(FaultError, TimeoutError):
    """Ranks did not come before the deadline."""


class MismatchError(FaultError):
    """Two ranks called different things; both are named."""


class PoisonedError(Error):
    """An earlier call failed: the output holds NaN (in a capture, nothing was recorded)."""


class RefusedError(Error):
    """The call was refused: nothing happened, the output is untouched."""


class ForkedError(RefusedError):
    """This process is a forked child, and the communicator its parent's."""


class ClosedError(RefusedError):
    """The communicator is closed."""


class BusyError(RefusedError):
    """Another thread is in a call of the communicator."""


class TensorError(RefusedError, ValueError):
    """The tensor can't be reduced as it is."""


class TensorTypeError(TensorError, TypeError):
    """The object is no tensor, or its elements are of another type."""


class DeviceError(TensorError):
    """The tensor is in memory that the communicator does not reduce."""
