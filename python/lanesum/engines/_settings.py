"""What the user wants of lanesum in an engine, from the environment; parsed by value, like all that lanesum reads."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from lanesum._lanesum import deadline, enabled, policy

# Ranks of an engine come far apart: one compiles or tunes kernels while the others wait. A rank that ends is noticed at once all the
# same. torch.distributed waits as long with NCCL.
_ENGINE_DEADLINE = 600.0


class Policy(Enum):
    """Who sums a message."""

    EXACT = "exact"
    """lanesum, whatever the length: the same bits for every length."""
    FASTEST = "fastest"
    """lanesum up to the length from which on the engine's own all-reduce is predicted to be faster."""


@dataclass(frozen=True)
class Settings:
    """The environment's wishes."""

    enabled: bool
    policy: Policy | None
    """None where the user leaves it to the engine at hand."""
    deadline: float
    """The longest wait of a call, seconds."""

    @classmethod
    def read(cls) -> Settings:
        """Reads them.

        Raises:
            EnvironmentVariableError: a value that means nothing.
        """
        word = policy()
        return cls(enabled(), None if word is None else Policy(word), deadline() or _ENGINE_DEADLINE)
