"""The plug-in for vLLM: entry point `lanesum` of the group `vllm.general_plugins`.

Four names are replaced. vLLM's own class makes lanesum's object where lanesum can serve the group, and itself where it can't.
`CudaCommunicator.all_reduce` asks lanesum's plan before all others: in vLLM's order four other libraries come before the custom
all-reduce. Whatever lanesum's plan leaves goes through vLLM's function, unchanged. The other two only look: one says when vLLM was
asked to have no custom all-reduce, one raises after a step what a graph has met.
"""

from __future__ import annotations

import functools
import logging
import sys
from importlib import import_module
from typing import Any

from lanesum.engines import _lines, _names
from lanesum.engines._adapter import AllReduce, check_all
from lanesum.engines._join import Engine, join
from lanesum.engines._settings import Settings

# Below vLLM's own logger, whose level and handlers it has by that.
_log = logging.getLogger("vllm.plugins.lanesum")

_OWN = "vllm.distributed.device_communicators.custom_all_reduce"
_DISPATCH = "vllm.distributed.device_communicators.cuda_communicator"
_WORKER = "vllm.v1.worker.gpu_worker"


def register() -> None:
    """Called by vLLM in each of its processes, and perhaps again.

    Raises:
        lanesum.EnvironmentVariableError: a variable of lanesum's means nothing. vLLM does not start then.
    """
    enabled = Settings.read().enabled
    needs = _names.VLLM
    why = _names.version_against(needs) or _platform_against() or _names.names_against(needs)
    if why is not None:
        _lines.say(_log, "lanesum stays out of vLLM: %s", why)
        return
    if not enabled:
        _lines.say(_log, "LANESUM turns lanesum off, vLLM sums as without it")
    # Even then: the ranks must find out together if only some of them have it turned off.
    own = import_module(_OWN).CustomAllreduce
    if not hasattr(own, "_lanesum"):
        _stand_in_for(own)
        communicator = import_module(_DISPATCH).CudaCommunicator
        _have_first_say(communicator)
        _tell_of_the_switch(communicator)


def _platform_against() -> str | None:
    platform: Any = import_module("vllm.platforms").current_platform
    if platform.is_rocm():
        return "it has no kernels for AMD's GPUs"
    # Empty where vLLM has found no platform at all.
    if platform.device_type not in ("cuda", ""):
        return f"it takes the place of the custom all-reduce of GPUs, and this is the platform {platform.device_type}"
    return None


def _stand_in_for(own: Any) -> None:
    """Lets vLLM's class make lanesum's object. The class stays itself, for whoever imports it or inherits from it."""

    def new(cls: Any, *arguments: Any, **named: Any) -> Any:
        ours = _join(*arguments, **named) if cls is own else None
        # What is no instance of the class is not initialised by it.
        return object.__new__(cls) if ours is None else ours

    own.__new__ = staticmethod(new)
    own._lanesum = True


def _join(group: Any, device: Any, *_: Any, **__: Any) -> AllReduce | None:
    torch: Any = import_module("torch")
    ours = join(
        group, torch.device("cuda", device) if isinstance(device, int) else torch.device(device), _engine(), _log
    )
    if ours is not None:
        _check_each_step()
    return ours


def _engine() -> Engine:
    invariant = import_module("vllm.envs").VLLM_BATCH_INVARIANT
    return Engine("vLLM", None, "VLLM_BATCH_INVARIANT" if invariant else None)


def _have_first_say(communicator: Any) -> None:
    original = communicator.all_reduce

    @functools.wraps(original)
    def all_reduce(self: Any, input_: Any) -> Any:
        ours = self.ca_comm
        if isinstance(ours, AllReduce) and ours.should_custom_ar(input_):
            return ours.custom_all_reduce(input_)
        return original(self, input_)

    communicator.all_reduce = all_reduce


def _tell_of_the_switch(communicator: Any) -> None:
    """A line where vLLM makes no custom all-reduce for a tensor-parallel group, and lanesum none in its place."""
    original = communicator.__init__

    @functools.wraps(original)
    def init(self: Any, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **named)
        parallel = self.unique_name.split(":")[0] == "tp" and self.world_size > 1
        if parallel and not self.use_custom_allreduce and self.rank_in_group == 0:
            # On GPUs of NVIDIA nobody but the user sets this.
            _log.info("lanesum stays out of a group of %d ranks: --disable-custom-all-reduce is set", self.world_size)

    communicator.__init__ = init


def _check_each_step() -> None:
    """What a replayed graph meets is raised after the step: nobody else looks, and its output would become text.

    Not when the plug-in is loaded: the module is one that only workers import.
    """
    name = next(name for name in _names.VLLM.names if name.module == _WORKER)
    if _WORKER not in sys.modules or _names.present(name) != name.signature:
        _log.debug("no worker of vLLM's own here: faults in graphs are raised by the next call outside of one")
        return
    worker: Any = sys.modules[_WORKER].Worker
    if hasattr(worker, "_lanesum"):
        return
    original = worker.execute_model

    @functools.wraps(original)
    def execute_model(self: Any, scheduler_output: Any) -> Any:
        result = original(self, scheduler_output)
        check_all()
        return result

    worker.execute_model, worker._lanesum = execute_model, True
