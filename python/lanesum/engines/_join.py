"""How the ranks of an engine's group decide together whether lanesum sums for them.

All of them or none: a rank that went its own way would wait for peers that never come. So every rank tells the others twice, over
the group's own CPU processes: before set-up who it is and whether anything is against it, and after it whether it worked and what
its plan is. Nothing in between is a collective of the group, so a rank may fail there wherever it likes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from logging import Logger
from typing import Any

from lanesum import _groups
from lanesum._errors import EnvironmentVariableError, Error, RendezvousError
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


@dataclass(frozen=True)
class _Wish:
    """What this rank brings to the group."""

    deadline: float
    policy: Policy
    reason: str
    against: str | None


@dataclass(frozen=True)
class _Group:
    """The engine's group, and this rank in it."""

    rank: int
    world: int
    gather: Callable[[Any], list[Any]]


class _StayOut(Exception):
    """Why lanesum leaves the group to the engine; all ranks of it raise this alike."""


def join(group: Any, device: Any, engine: Engine, log: Logger) -> AllReduce | None:
    """Sets lanesum up for a group, on all of its ranks; None, and a line that says why, if it stays with the engine's own.

    Args:
        group: a process group of torch.distributed that can pass objects on by the CPU.
        device: this rank's, as torch names it.

    Raises:
        EnvironmentVariableError: on any rank a variable means nothing; on all ranks alike.
    """
    members = _members(group)
    if members is None:
        log.warning("lanesum stays out: a group is none of torch.distributed; %s sums as without lanesum", engine.title)
        return None
    try:
        wish, name = _agreed(members, device, engine)
        ours, limits = _set_up(members, name, device, wish)
    except _StayOut as why:
        if members.rank == 0:
            log.warning(
                "lanesum stays out of a group of %d ranks: %s; %s sums as without lanesum",
                members.world,
                why,
                engine.title,
            )
        return None
    if members.rank == 0:
        log.info("%s", _lines.sums(engine.title, members.world, wish.reason, limits))
    return ours


def _members(group: Any) -> _Group | None:
    """None for a group that is not torch's own, as every rank sees."""
    torch: Any = import_module("torch")
    dist: Any = import_module("torch.distributed")
    try:
        rank, world = dist.get_rank(group), dist.get_world_size(group)
    except (ValueError, RuntimeError):
        return None

    def gather(word: Any) -> list[Any]:
        words: list[Any] = [None] * world
        # Gloo's threads may not write to tensors that are made in inference mode, in which engines may be.
        with torch.inference_mode(False):
            dist.all_gather_object(words, word, group=group)
        return words

    return _Group(rank, world, gather)


def _agreed(members: _Group, device: Any, engine: Engine) -> tuple[_Wish, str]:
    """What this rank wishes, and where the ranks meet, if nothing is against lanesum on any of them."""
    malformed, wish = None, _Wish(0, Policy.FASTEST, "", None)
    try:
        wish = _wish(Settings.read(), engine, device)
    except EnvironmentVariableError as own:
        malformed = own
    words = members.gather((malformed, wish.against, wish.policy.value, _groups.own_word("engine")))
    errors, reasons, policies, names = zip(*words, strict=True)
    for rank, error in enumerate(errors):
        if error is not None:
            # Who misspelled a wish gets an error and not a guess, on every rank.
            raise malformed or EnvironmentVariableError(f"rank {rank}: {error.cause}", error.hint, error.kind)
    _none_against(reasons)
    if len(set(policies)) > 1:
        raise _StayOut(f"the ranks have different policies: {', '.join(policies)}")
    try:
        return wish, _groups.meeting(list(names))
    except RendezvousError as error:
        raise _StayOut(error.cause) from error


def _wish(settings: Settings, engine: Engine, device: Any) -> _Wish:
    if engine.deterministic is not None and settings.policy is not Policy.EXACT:
        # Two libraries that share the lengths between them add in different orders.
        policy, reason = Policy.EXACT, f"because of {engine.deterministic}"
    elif settings.policy is None:
        policy, reason = Policy.FASTEST, "the default"
    else:
        policy, reason = settings.policy, "by LANESUM_POLICY"
    against = None if settings.enabled else "LANESUM turns it off"
    against = against or engine.against or _device_against(device)
    return _Wish(settings.deadline, policy, f"policy {policy.value}, {reason}", against)


def _device_against(device: Any) -> str | None:
    torch: Any = import_module("torch")
    if device.type == "cuda" and torch.version.hip is not None:
        return "it has no kernels for AMD's GPUs"
    if device.type not in ("cuda", "cpu"):
        return f"it has no kernels for devices of type {device.type}"
    return None


def _none_against(reasons: tuple[str | None, ...]) -> None:
    for rank, reason in enumerate(reasons):
        if reason is not None:
            raise _StayOut(reason if set(reasons) == {reason} else f"rank {rank}: {reason}")


def _set_up(members: _Group, name: str, device: Any, wish: _Wish) -> tuple[AllReduce, _Limits]:
    torch: Any = import_module("torch")
    communicator, failure, consequence, own = None, None, False, _Limits()
    try:
        communicator = _communicator(members, name, device, wish)
        own = _limits(communicator, wish.policy)
    except Exception as error:  # Whatever it is, the other ranks must hear of it.
        failure = str(error) if isinstance(error, Error) else f"{type(error).__name__}: {error}"
        consequence = isinstance(error, RendezvousError)
    failures, consequences, plans = zip(*members.gather((failure, consequence, own)), strict=True)
    try:
        # Who waited in vain only names the rank that knows why.
        _none_against(tuple(None if late else why for why, late in zip(failures, consequences, strict=True)))
        _none_against(failures)
        assert communicator is not None
    except _StayOut:
        if communicator is not None:
            communicator.close()
        raise
    limits = {dtype: _least([plan[dtype] for plan in plans]) for dtype in _DTYPES}
    return AllReduce(communicator, {getattr(torch, dtype): limit for dtype, limit in limits.items()}), limits


def _communicator(members: _Group, name: str, device: Any, wish: _Wish) -> Communicator:
    index = None if device.type == "cpu" else device.index
    if device.type != "cpu" and index is None:
        index = import_module("torch").cuda.current_device()
    return Communicator(
        members.rank,
        members.world,
        name,
        device=index,
        deadline=wish.deadline,
        setup_deadline=_SETUP_DEADLINE,
    )


def _limits(communicator: Communicator, policy: Policy) -> _Limits:
    if policy is Policy.EXACT:
        return dict.fromkeys(_DTYPES)
    return {dtype: communicator.delegate_from(dtype) for dtype in _DTYPES}


def _least(limits: list[int | None]) -> int | None:
    """What all ranks use. They have the same plan, but the rule that all answer alike must not hang on that."""
    return min((limit for limit in limits if limit is not None), default=None)
