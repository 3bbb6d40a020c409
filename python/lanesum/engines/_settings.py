"""What the user wants of lanesum in an engine, from the environment; parsed by value, like all that lanesum reads."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import Enum

from lanesum._errors import EnvironmentVariableError

POLICY = "LANESUM_POLICY"
DEADLINE = "LANESUM_DEADLINE_MS"

# Ranks of an engine come far apart: one compiles or tunes kernels while the others wait. A rank that ends is noticed at once all the
# same. torch.distributed waits as long with NCCL.
_ENGINE_DEADLINE = 600.0
_LONGEST_MS = 24 * 24 * 60 * 60 * 1000


class Policy(Enum):
    """Who sums a message."""

    EXACT = "exact"
    """lanesum, whatever the length: the same bits for every length."""
    FASTEST = "fastest"
    """lanesum up to the length from which on the engine's own all-reduce is predicted to be faster."""


@dataclass(frozen=True)
class Settings:
    """The environment's wishes; None is the default of the engine at hand."""

    policy: Policy | None
    deadline: float

    @classmethod
    def read(cls) -> Settings:
        """Reads them.

        Raises:
            EnvironmentVariableError: a value that means nothing.
        """
        return cls(_policy(os.environ.get(POLICY)), _deadline(os.environ.get(DEADLINE)))


def _policy(text: str | None) -> Policy | None:
    if text is None:
        return None
    try:
        return Policy(text.strip().lower())
    except ValueError:
        words = " or ".join(policy.value for policy in Policy)
        raise EnvironmentVariableError(
            f"{POLICY} is {text!r}, which is no policy", f"set it to {words}, or unset it", "malformed"
        ) from None


def _deadline(text: str | None) -> float:
    if text is None:
        return _ENGINE_DEADLINE
    if text.isascii() and text.isdigit() and 1 <= int(text) <= _LONGEST_MS:
        return int(text) / 1000
    raise EnvironmentVariableError(
        f"{DEADLINE} is {text!r}, which is no number of milliseconds from 1 to {_LONGEST_MS}",
        "correct it, or unset it",
        "malformed",
    )
