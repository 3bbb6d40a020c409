"""What the environment says of the backend. Values are parsed: none counts by being there."""

from __future__ import annotations

import os
from enum import Enum

from lanesum import EnvironmentVariableError

VARIABLE = "LANESUM_POLICY"


class Policy(Enum):
    """What decides between lanesum and NCCL where both could."""

    EXACT = "exact"
    """lanesum, always: the same bits on all ranks and for every length."""
    FASTEST = "fastest"
    """NCCL, from the length on that it is predicted to be faster at."""


def policy() -> Policy:
    """That of this process."""
    text = os.environ.get(VARIABLE, "")
    if text == "":
        return Policy.EXACT
    try:
        return Policy(text)
    except ValueError:
        raise EnvironmentVariableError(
            f"{VARIABLE} is {text!r}", "set it to exact (the default) or fastest, the same on all ranks", VARIABLE
        ) from None


def enabled() -> bool:
    """A shim until lanesum.enabled is there."""
    return os.environ.get("LANESUM", "1") != "0"
