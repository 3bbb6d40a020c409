"""The plug-in for SGLang: entry point `lanesum` of the group `sglang.srt.plugins`.

Four hooks of SGLang's own registry. One makes lanesum's object where SGLang would choose a class of custom all-reduce. Two let
lanesum's plan be asked before MSCCL++ and FlashInfer, which come first in SGLang's order. One stops a group whose
user misspelled a variable, as SGLang goes on after an error of a plug-in or of a custom all-reduce, and says when SGLang was asked to
have none. A fifth, made in the processes that run models, raises after a step what a graph has met.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from lanesum._errors import EnvironmentVariableError
from lanesum.engines import _lines, _names
from lanesum.engines._adapter import AllReduce, check_all
from lanesum.engines._join import Engine, join
from lanesum.engines._settings import Settings

# Below SGLang's own name, whose level it has by that.
_log = logging.getLogger("sglang.srt.plugins.lanesum")

_DISPATCH = "sglang.srt.distributed.device_communicators.custom_all_reduce.dispatch_custom_allreduce"
_STATE = "sglang.srt.distributed.parallel_state"
_COORDINATOR = f"{_STATE}.GroupCoordinator"
_RUNNER = "sglang.srt.model_executor.model_runner"


def register() -> None:
    """Called by SGLang in each of its processes, before it applies the hooks."""
    why = _names.version_against(_names.SGLANG) or _names.names_against(_names.SGLANG)
    if why is not None:
        _lines.say(_log, "lanesum stays out of SGLang: %s", why)
        return
    try:
        if not Settings.read().enabled:
            _lines.say(_log, "LANESUM turns lanesum off, SGLang sums as without it")
    except EnvironmentVariableError:
        pass  # The hook on the group raises it, where it ends the server.
    # Even then: the ranks must find out together if only some of them have it turned off.
    _hook(f"{_COORDINATOR}.__init__", _around_set_up)
    _hook(_DISPATCH, _dispatch)
    _hook(f"{_COORDINATOR}._resolve_outplace_all_reduce_method", _resolve)
    _hook(f"{_COORDINATOR}._can_use_flashinfer_allreduce", _flashinfer)


def _hook(target: str, hook: Callable[..., Any]) -> None:
    """Wraps a function of SGLang, once."""
    registry: Any = import_module("sglang.srt.plugins.hook_registry")
    if not any(each[1] is hook for each in registry.HookRegistry._hooks.get(target, ())):
        registry.HookRegistry.register(target, hook, registry.HookType.AROUND)


def _around_set_up(original: Any, self: Any, *arguments: Any, **named: Any) -> None:
    """Ends the group for a variable that means nothing; a line where there is to be no custom all-reduce, and so no lanesum."""
    Settings.read()
    original(self, *arguments, **named)
    parallel = self.unique_name.split(":")[0] == "tp" and self.world_size > 1
    if parallel and not self.use_custom_allreduce and self.rank_in_group == 0:
        _log.info(
            "lanesum stays out of a group of %d ranks: --disable-custom-all-reduce is set, by the user or by SGLang",
            self.world_size,
        )


def _dispatch(original: Any, group: Any, device: Any) -> Any:
    """What makes the group's custom all-reduce: lanesum's object, made here on all ranks alike, or SGLang's class."""
    ours = join(group, device, _engine(), _log)
    if ours is None:
        return original(group=group, device=device)
    _check_each_step()
    return lambda group, device: ours


def _engine() -> Engine:
    coordinator = import_module(_STATE).GroupCoordinator
    deterministic = coordinator._deterministic_collectives_enabled()
    return Engine("SGLang", _platform_against(), "--enable-deterministic-inference" if deterministic else None)


def _platform_against() -> str | None:
    if import_module("sglang.srt.utils").is_cuda():
        return None
    return "it takes the place of the custom all-reduce of NVIDIA's GPUs, and this is another platform"


def _resolve(original: Any, self: Any, input_: Any, *rest: Any, **named: Any) -> Any:
    ours = self.ca_comm
    if isinstance(ours, AllReduce) and ours.should_custom_ar(input_):
        return "ca"
    return original(self, input_, *rest, **named)


def _flashinfer(original: Any, self: Any, input_: Any) -> Any:
    ours = self.ca_comm
    if isinstance(ours, AllReduce):
        torch: Any = sys.modules["torch"]
        # A compiler would make a graph for each answer of the plan. Without FlashInfer SGLang asks when the graph runs.
        if torch.compiler.is_compiling() or ours.should_custom_ar(input_):
            return False
    return original(self, input_)


def _check_each_step() -> None:
    """What a replayed graph meets is raised after the step: nobody else looks, and its output would become text.

    Not when the plug-in is loaded: the module is one that only workers import.
    """
    name = next(name for name in _names.SGLANG.names if name.module == _RUNNER)
    if _RUNNER not in sys.modules or _names.present(name) != name.signature:
        _log.debug("no model runner of SGLang's own here: faults in graphs are raised by the next call outside of one")
        return
    _hook(f"{_RUNNER}.ModelRunner.forward", _forward)
    import_module("sglang.srt.plugins.hook_registry").HookRegistry.apply_hooks()


def _forward(original: Any, *arguments: Any, **named: Any) -> Any:
    result = original(*arguments, **named)
    check_all()
    return result
