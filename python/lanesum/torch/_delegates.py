"""Those who run what lanesum does not: Gloo for the memory of the host, NCCL for that of GPUs.

Each is a process group of torch's own. Gloo's is made with the group, as it also carries barriers and objects. NCCL's is made at the
first collective that needs it, which all ranks call. It refuses ranks that share a GPU, which lanesum does not: for those, as in tests
on a machine with fewer GPUs than ranks, Gloo copies to the host and back.
"""

from __future__ import annotations

import functools
import logging
from datetime import timedelta
from importlib import import_module
from typing import Any

from lanesum import DeviceError, ResourceError
from lanesum.torch._table import COLLECTIVES
from lanesum.torch._work import HostWork

LOG = logging.getLogger("lanesum.torch")

torch: Any = import_module("torch")
dist: Any = import_module("torch.distributed")


def no_place(device: str) -> DeviceError:
    return DeviceError(
        f"a group of the backend lanesum has no collectives for tensors on {device} here",
        "move them to the CPU or to a CUDA device, or use a group of another backend",
        "place",
    )


class Delegates:
    """A process group a kind of memory."""

    def __init__(self, options: Any, nccl_options: Any) -> None:
        self._options, self._nccl_options = options, nccl_options
        self._kinds = {"cpu": "GLOO"}
        self._shown = False
        self._groups: dict[str, Any] = {"cpu": self._group("cpu", self._gloo())}

    def of(self, device: str) -> Any:
        """The process group for tensors of this type of device."""
        if device not in self._groups:
            if device != "cuda":
                raise no_place(device)
            shared = self._share_gpus()
            self._kinds[device] = "GLOO" if shared else "NCCL"
            if shared and self._options.group_rank == 0:
                LOG.warning("group %s: ranks share a GPU, so Gloo has CUDA tensors, too", self._options.group_id)
            self._groups[device] = Staged(self.of("cpu")) if shared else self._group("cuda", self._nccl())
        return self._groups[device]

    def kind(self, device: str) -> str:
        """torch's name for who runs it for tensors of this type of device."""
        self.of(device)
        return self._kinds[device]

    @property
    def made(self) -> dict[str, Any]:
        """Those that there are, by device."""
        return dict(self._groups)

    def backend(self, device: str) -> Any:
        """torch's backend for tensors of this type of device; where ranks share a GPU, that of the host."""
        place = "cuda" if self.kind(device) == "NCCL" else "cpu"
        return self.of(device)._get_backend(torch.device(place))

    def set_timeout(self, timeout: timedelta) -> None:
        self._options.timeout = timeout
        for device in self._groups:
            self.backend(device)._set_default_timeout(timeout)

    def end(self, how: str) -> None:
        """`shutdown` or `abort`."""
        for group in self._groups.values():
            # Behind that of GPUs may be that of the host.
            if not isinstance(group, Staged):
                getattr(group, how)()

    def show_gpu(self, device: Any) -> None:
        """Tells the other ranks which GPU this one has, once it has one; `device` is that of a tensor, or None. Waits for nobody."""
        if self._shown or not torch.cuda.is_initialized():
            return
        self._shown = True
        index = torch.cuda.current_device() if device is None or device.index is None else device.index
        store = dist.PrefixStore("gpus/", self._options.store)
        store.set(str(self._options.group_rank), str(torch.cuda.get_device_properties(index).uuid))

    def _share_gpus(self) -> bool:
        """Whether two ranks have one GPU. All ranks that ask get the same answer, also while the others do something else."""
        options = self._options
        self.show_gpu(None)
        store = dist.PrefixStore("gpus/", options.store)
        every = {store.get(str(rank)) for rank in range(options.group_size)}
        return bool(len(every) < options.group_size)

    def _group(self, device: str, backend: Any) -> Any:
        options, kind = self._options, self._kinds[device]
        group = dist.ProcessGroup(options.store, options.group_rank, options.group_size)
        backend_type = getattr(dist.ProcessGroup.BackendType, kind)
        group._set_default_backend(backend_type)
        group._register_backend(torch.device(device), backend_type, backend)
        group._set_group_name(options.group_id)
        return group

    def _gloo(self) -> Any:
        if not dist.is_gloo_available():
            raise ResourceError(
                "a group of the backend lanesum needs Gloo, and this torch has none", "install a torch with Gloo", "no_gloo"
            )
        options = self._options
        store = dist.PrefixStore("gloo/", options.store)
        return dist.ProcessGroupGloo(store, options.group_rank, options.group_size, timeout=options.timeout)

    def _nccl(self) -> Any:
        if not dist.is_nccl_available():
            raise DeviceError(
                "what lanesum does not run for CUDA tensors is NCCL's, and this torch has no NCCL",
                "move the tensors to the CPU, or install a torch with NCCL",
                "no_nccl",
            )
        options = self._options
        theirs = self._nccl_options or dist.ProcessGroupNCCL.Options()
        theirs._timeout = options.timeout
        theirs.global_ranks_in_group = options.global_ranks_in_group
        theirs.group_name = options.group_id
        store = dist.PrefixStore("nccl/", options.store)
        return dist.ProcessGroupNCCL(store, options.group_rank, options.group_size, theirs)


class Staged:
    """Gloo for tensors of GPUs, by copies in the memory of the host: a collective is done when it returns.

    Of tensors of GPUs themselves Gloo takes some in some collectives, and crashes on others.
    """

    def __init__(self, group: Any) -> None:
        self._group = group

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._group, name)
        return functools.partial(_on_host, method) if name in COLLECTIVES else method


def _on_host(method: Any, *arguments: Any, **words: Any) -> HostWork:
    copies: list[tuple[Any, Any]] = []

    def on_host(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.device.type == "cuda":
            copies.append((value, value.cpu()))
            return copies[-1][1]
        return [on_host(each) for each in value] if isinstance(value, (list, tuple)) else value

    method(*map(on_host, arguments), **{name: on_host(value) for name, value in words.items()}).wait()
    # Outputs come before inputs, and may lie in them: the last to be written are the outputs.
    for tensor, copy in reversed(copies):
        tensor.copy_(copy)
    return HostWork([tensor for tensor, _ in copies])


class Face:
    """What torch gets for "the backend of a device". It can't be split, as only part of the group's work is its."""

    supports_splitting = False
    supports_shrinking = False
    supports_time_estimate = False

    def __init__(self, delegates: Delegates, device: str) -> None:
        self._delegates, self._device = delegates, device
        # Asked before it is used: NCCL is not made for the question.
        self.supports_coalescing = device == "cuda"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_delegates":
            # Asked of a copy that has nothing yet.
            raise AttributeError(name)
        return getattr(self._delegates.backend(self._device), name)
