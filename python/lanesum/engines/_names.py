"""What the plug-ins need of each engine: one list, for the check when an engine loads them and for `cargo xtask engines`.

A signature is written as the names of its parameters, with `=` behind those that have a default, `*` before those that go by
name only, `/` behind those that go by position only.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from importlib import import_module, metadata
from typing import Any


@dataclass(frozen=True)
class Name:
    """A function of an engine that is called, replaced or stood in for."""

    module: str
    path: str
    """Its name within the module, with the class."""
    signature: str
    eager: bool = True
    """Whether it is looked at when the plug-in is loaded: a module that the engine imports later is not imported for that."""

    def __str__(self) -> str:
        return f"{self.module}.{self.path}({self.signature})"


@dataclass(frozen=True)
class Needs:
    """What a plug-in needs of its engine."""

    title: str
    distribution: str
    series: tuple[str, ...]
    """The versions that it knows: each with all that continue it behind a full stop."""
    tried: str
    """The version that the tests run with."""
    names: tuple[Name, ...]
    holder: str
    """The variable that holds the custom all-reduce in the engine's sources."""
    attributes: frozenset[str]
    """All that the engine's sources ask of it, beyond what they look for with `hasattr`."""
    elsewhere: tuple[str, ...]
    """Parts of paths of sources where the variable is something else, or runs on other vendors' GPUs alone."""


_VLLM = "vllm.distributed.device_communicators"
_VLLM_OWN = f"{_VLLM}.custom_all_reduce"

VLLM = Needs(
    title="vLLM",
    distribution="vllm",
    series=("0.33",),
    tried="0.33.0",
    names=(
        Name(
            _VLLM_OWN,
            "CustomAllreduce.__init__",
            "self, group, device, max_size=, max_all_gather_size=, max_mnnvl_all_gather_size=, max_reduce_scatter_size=, "
            "max_mnnvl_reduce_scatter_size=, max_mnnvl_multimem_reduce_scatter_size=, symm_mem_enabled=, *, "
            "register_graph_buffers=",
        ),
        Name(_VLLM_OWN, "CustomAllreduce.should_custom_ar", "self, inp"),
        Name(_VLLM_OWN, "CustomAllreduce.custom_all_reduce", "self, input"),
        Name(_VLLM_OWN, "CustomAllreduce.capture", "self"),
        Name(_VLLM_OWN, "CustomAllreduce.close", "self"),
        Name(_VLLM_OWN, "CustomAllreduce.custom_all_gather", "self, inp"),
        Name(_VLLM_OWN, "CustomAllreduce.custom_reduce_scatter", "self, inp"),
        Name(
            f"{_VLLM}.cuda_communicator",
            "CudaCommunicator.__init__",
            "self, cpu_group, device=, device_group=, unique_name=, global_ranks=, global_world_size=, tcp_store_group=, "
            "use_all2all=",
        ),
        Name(f"{_VLLM}.cuda_communicator", "CudaCommunicator.all_reduce", "self, input_"),
        Name("vllm.v1.worker.gpu_worker", "Worker.execute_model", "self, scheduler_output", eager=False),
    ),
    holder="ca_comm",
    attributes=frozenset(
        {
            "capture",
            "custom_all_gather",
            "custom_all_reduce",
            "custom_reduce_scatter",
            "disabled",
            "fully_connected",
            "mnnvl_lamport_ag_multicast_ptr",
            "should_custom_ar",
        }
    ),
    # Its variable is AITER's.
    elsewhere=("compilation/passes/fusion/allreduce_rms_fusion.py",),
)


_SGLANG_STATE = "sglang.srt.distributed.parallel_state"
_SGLANG_OWN = "sglang.srt.distributed.device_communicators.custom_all_reduce"

SGLANG = Needs(
    title="SGLang",
    distribution="sglang",
    series=("0.5.23",),
    tried="0.5.23",
    names=(
        Name(_SGLANG_OWN, "dispatch_custom_allreduce", "group, device"),
        Name(_SGLANG_OWN, "CustomAllreduce.should_custom_ar", "self, inp"),
        Name(_SGLANG_OWN, "CustomAllreduce.custom_all_reduce", "self, input"),
        Name(_SGLANG_OWN, "CustomAllreduce.capture", "self"),
        Name(_SGLANG_OWN, "CustomAllreduce.close", "self"),
        Name(
            _SGLANG_STATE,
            "GroupCoordinator.__init__",
            "self, group_ranks, local_rank, torch_distributed_backend, use_pynccl, use_mscclpp, use_custom_allreduce, "
            "use_torch_symm_mem_all_reduce, use_hpu_communicator, use_xpu_communicator, use_message_queue_broadcaster=, "
            "group_name=, gloo_timeout=, recovered_rank=, rank_offset=, max_world_size=",
        ),
        Name(_SGLANG_STATE, "GroupCoordinator.all_reduce", "self, input_"),
        Name(
            _SGLANG_STATE,
            "GroupCoordinator._resolve_outplace_all_reduce_method",
            "self, input_, should_use_pymscclpp_allreduce=",
        ),
        Name(_SGLANG_STATE, "GroupCoordinator._can_use_flashinfer_allreduce", "self, input_"),
        Name(_SGLANG_STATE, "GroupCoordinator._all_reduce_out_place", "self, input_, outplace_all_reduce_method"),
        Name(_SGLANG_STATE, "GroupCoordinator._deterministic_collectives_enabled", ""),
        Name("sglang.srt.plugins.hook_registry", "HookRegistry.register", "cls, target, hook, hook_type=, *, source="),
        Name(
            "sglang.srt.model_executor.model_runner",
            "ModelRunner.forward",
            "self, forward_batch, skip_attn_backend_init=, pp_proxy_tensors=, reinit_attn_backend=, split_forward_count=",
            eager=False,
        ),
    ),
    holder="ca_comm",
    attributes=frozenset({"capture", "custom_all_reduce", "disabled", "should_custom_ar"}),
    # Only where an attribute `obj` says that it is SGLang's own.
    elsewhere=("srt/distributed/device_communicators/vocab_gather.py",),
)


def version_against(needs: Needs) -> str | None:
    """Why the plug-in can't serve the version that is installed; None if it can. Nothing is imported for that."""
    try:
        version = metadata.version(needs.distribution)
    except metadata.PackageNotFoundError:
        version = "one that does not say its number"
    if known(needs, version):
        return None
    return f"it knows {needs.title} {', '.join(needs.series)} and found {version}"


def known(needs: Needs, version: str) -> bool:
    """Whether the version is of a series that was tried."""
    return any(re.match(rf"v?{re.escape(series)}(?:\.|\+|$)", version) for series in needs.series)


def names_against(needs: Needs) -> str | None:
    """Which name of the installed engine is not as the plug-in needs it; None if all are."""
    for name in needs.names:
        if name.eager and present(name) != name.signature:
            return different(needs, name, present(name))
    return None


def different(needs: Needs, name: Name, found: str | None) -> str:
    """That a name is not as it is needed."""
    return f"it needs {name} of {needs.title} and found {'none' if found is None else f'({found})'}"


def present(name: Name) -> str | None:
    """The signature that the imported engine has; None if the name is not there."""
    try:
        thing: Any = import_module(name.module)
        for part in name.path.split("."):
            thing = inspect.getattr_static(thing, part)
    except Exception:  # Importing runs the engine's code, and no failure of that is the plug-in's to pass on.
        return None
    if isinstance(thing, (staticmethod, classmethod)):
        thing = thing.__func__
    return written(inspect.signature(thing)) if callable(thing) else None


def written(signature: inspect.Signature) -> str:
    """A signature in the words of the list."""
    kinds = inspect.Parameter
    stars: dict[Any, str] = {kinds.VAR_POSITIONAL: "*", kinds.VAR_KEYWORD: "**"}
    parameters = list(signature.parameters.values())
    words = [stars.get(each.kind, "") + each.name + ("" if each.default is kinds.empty else "=") for each in parameters]
    named = [at for at, each in enumerate(parameters) if each.kind is kinds.KEYWORD_ONLY]
    if named and not any(each.kind is kinds.VAR_POSITIONAL for each in parameters):
        words.insert(named[0], "*")
    positional = sum(each.kind is kinds.POSITIONAL_ONLY for each in parameters)
    if positional:
        words.insert(positional, "/")
    return ", ".join(words)
