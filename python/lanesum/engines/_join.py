"""How the ranks of an engine's group decide together whether lanesum sums for them.

All of them or none: a rank that went its own way would wait for peers that never come. So every rank tells the others twice, over
the group's own CPU processes: before set-up whether anything is against it, and after it whether it worked and what its plan is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from logging import Logger
from typing import Any

from lanesum import _shim
from lanesum._errors import EnvironmentVariableError, Error
from lanesum._lanesum import Communicator
from lanesum.engines import _lines
from lanesum.engines._adapter import AllReduce
from lanesum.engines._settings import Policy, Settings

_DTYPES = ("float32", "float16", "bfloat16")

# Ranks come to the meeting together, as they have just spoken to each other.
_SETUP_DEADLINE = 60.0

_Limits = dict[str, "int | None"]


@dataclass(frozen=True)
class Engine:
    """What an engine is, as far as the decision goes."""

    title: str
    """Its name, for people."""
    against: str | None
    """Why it can't be served on this rank's platform."""
    deterministic: str | None
    """The switch by which the user asked for results that depend on no length; None if there is none."""


class _StayOut(Exception):
    """Why lanesum leaves the group to the engine; all ranks of it raise this alike."""


def join(group: Any, device: Any, engine: Engine, log: Logger) -> AllReduce | None:
    """Sets lanesum up for a group, on all of its ranks; None, and a line that says why, if it stays with the engine's own.

    Args:
        group: a process group of torch.distributed that can pass objects on by the CPU.
        device: this rank's, as torch names it.
    """
    dist: Any = import_module("torch.distributed")
    try:
        rank, world = dist.get_rank(group), dist.get_world_size(group)
    except (ValueError, RuntimeError):
        # A group that is not torch's own looks so on every rank.
        log.info("lanesum stays out: the group is none of torch.distributed; %s sums as without lanesum", engine.title)
        return None

    def gather(word: Any) -> list[Any]:
        words: list[Any] = [None] * world
        dist.all_gather_object(words, word, group=group)
        return words

    try:
        policy, reason = _agreed_policy(engine, device, gather)
        ours, limits = _set_up(group, device, policy, gather)
    except _StayOut as why:
        if rank == 0:
            log.warning("lanesum stays out of a group of %d ranks: %s; %s sums as without lanesum", world, why, engine.title)
        return None
    if rank == 0:
        log.info("%s", _lines.sums(engine.title, world, reason, limits))
    return ours


def _agreed_policy(engine: Engine, device: Any, gather: Callable[[Any], list[Any]]) -> tuple[Policy, str]:
    """The policy and whence it comes, if nothing is against lanesum on any rank."""
    against, malformed, policy, reason = None, None, Policy.FASTEST, ""
    try:
        policy, reason = _policy(Settings.read(), engine)
        against = engine.against or _against(device)
    except EnvironmentVariableError as error:
        malformed = error
    words = gather((malformed, against, policy.value))
    for rank, (error, _, _) in enumerate(words):
        if error is not None:
            # A user who misspelled a wish gets an error and not a guess, on every rank.
            raise malformed or EnvironmentVariableError(f"rank {rank}: {error.cause}", error.hint, error.kind)
    _none_against([word[1] for word in words])
    if len({word[2] for word in words}) > 1:
        raise _StayOut(f"the ranks have different policies: {', '.join(word[2] for word in words)}")
    return policy, reason


def _against(device: Any) -> str | None:
    torch: Any = import_module("torch")
    if not _shim.enabled():
        return "LANESUM=0 turns it off"
    if device.type == "cuda" and torch.version.hip is not None:
        return "it has no kernels for AMD's GPUs"
    if device.type not in ("cuda", "cpu"):
        return f"it has no kernels for devices of type {device.type}"
    return None


def _policy(settings: Settings, engine: Engine) -> tuple[Policy, str]:
    if engine.deterministic is not None and settings.policy is not Policy.EXACT:
        # Two libraries that share the lengths between them add in different orders.
        return Policy.EXACT, f"policy exact, because of {engine.deterministic}"
    if settings.policy is None:
        return Policy.FASTEST, "policy fastest, the default"
    return settings.policy, f"policy {settings.policy.value}, by LANESUM_POLICY"


def _none_against(reasons: list[str | None]) -> None:
    for rank, reason in enumerate(reasons):
        if reason is not None:
            everywhere = all(other == reason for other in reasons)
            raise _StayOut(reason if everywhere else f"rank {rank}: {reason}")


def _set_up(
    group: Any, device: Any, policy: Policy, gather: Callable[[Any], list[Any]]
) -> tuple[AllReduce, _Limits]:
    torch: Any = import_module("torch")
    communicator, failure, own = None, None, _Limits()
    try:
        communicator = _communicator(group, device)
        own = _limits(communicator, policy)
    except Exception as error:  # Whatever it is, the other ranks must hear of it.
        failure = str(error) if isinstance(error, Error) else f"{type(error).__name__}: {error}"
    words = gather((failure, own))
    try:
        _none_against([word[0] for word in words])
        assert communicator is not None
    except _StayOut:
        if communicator is not None:
            communicator.close()
        raise
    limits = {dtype: _least([word[1][dtype] for word in words]) for dtype in _DTYPES}
    return AllReduce(communicator, {getattr(torch, dtype): limit for dtype, limit in limits.items()}), limits


def _communicator(group: Any, device: Any) -> Communicator:
    deadline = Settings.read().deadline
    if device.type == "cpu":
        return Communicator.from_torch(group, engine="host", deadline=deadline, setup_deadline=_SETUP_DEADLINE)
    return Communicator.from_torch(group, device=device.index, deadline=deadline, setup_deadline=_SETUP_DEADLINE)


def _limits(communicator: Communicator, policy: Policy) -> _Limits:
    if policy is Policy.EXACT:
        return dict.fromkeys(_DTYPES)
    return {dtype: _shim.delegate_from(communicator, dtype) for dtype in _DTYPES}


def _least(limits: list[int | None]) -> int | None:
    """What all ranks use: predictions rest on measurements, which may differ from rank to rank."""
    return min((limit for limit in limits if limit is not None), default=None)
