"""The process group: torch's class, with every collective sent to who runs it by the table.

It is a group and not a backend of one, as that is what torch lets Python be in all its versions: so one object has the tensors of all
devices. How torch calls it differs: from Python its methods are called, from C++ (functional collectives, DDP) those that its C++ class
asks Python for; where that asks for none, the call goes to the backends that are registered with it, which are the delegates.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from typing import Any

from lanesum import Communicator, RefusedError, TensorError
from lanesum.torch._delegates import Delegates, Face, no_place
from lanesum.torch._lanes import Lanes, Wish, meeting
from lanesum.torch._route import Route, label, memory
from lanesum.torch._table import COLLECTIVES, REFUSED, Runner, unknown
from lanesum.torch._work import AllWork, HostWork, StreamWork, refuse_children

torch: Any = import_module("torch")
dist: Any = import_module("torch.distributed")

LOG = logging.getLogger("lanesum.torch")


class LanesumGroup(dist.ProcessGroup):  # type: ignore[misc]
    """A group of ranks whose all_reduce is lanesum's. Made by `init_process_group` and `new_group`."""

    def __init__(self, options: Any, nccl_options: Any) -> None:
        # Without the store, which torch's C++ does not take from Python in all versions.
        super().__init__(options.group_rank, options.group_size)
        self._store = options.store
        self._process = os.getpid()
        # The store may have carried a group of this name before, whose words are still there.
        turn = options.store.add(f"lanesum/turns/{options.group_rank}", 1)
        options.store = dist.PrefixStore(f"lanesum/{turn}/", options.store)
        self._delegates = Delegates(options, nccl_options)
        self._lanes: Lanes | None = None
        self._route: Route | None = None
        self._ran: Counter[tuple[str, str]] = Counter()
        # What was called since torch began to coalesce, on which device, and NCCL's group if it has a part in it.
        self._coalesced: list[Any] | None = None
        self._coalescing: Any = None
        self._nccls: Any = None
        self._places: list[Any] = []
        self._set_default_backend(dist.ProcessGroup.BackendType.GLOO)
        self._adopt("cpu")
        wish, wrong = Wish.read()
        why = self._join(options, wish)
        if wrong is not None:
            raise wrong
        if options.group_rank == 0:
            # Whoever asked for lanesum and does not get it is told without asking.
            LOG.log(logging.INFO if why is None else logging.WARNING, "%s", _line(options, why, wish.fastest))

    def _join(self, options: Any, wish: Wish) -> str | None:
        name, why = meeting(options.store, options.group_rank, options.group_size, wish)
        if name is not None:
            self._lanes = Lanes(_title(options), name, options.group_rank, options.group_size, options.timeout)
            self._route = Route(self._lanes, wish.fastest)
        return why

    def _adopt(self, device: str) -> None:
        """Lets torch's C++ find who runs what it does not ask Python for."""
        kind = self._delegates.kind(device)
        if device == "cuda" and kind == "GLOO":
            # Gloo itself can't take these tensors: what torch's C++ does not ask Python for raises.
            return
        backend = self._delegates.backend(device)
        self._register_backend(torch.device(device), getattr(dist.ProcessGroup.BackendType, kind), backend)

    # Sums.

    def allreduce(self, tensors: Any, opts: Any = None, **words: Any) -> Any:
        return self._sum("allreduce", [tensors] if isinstance(tensors, torch.Tensor) else tensors, opts, words)

    def allreduce_coalesced(self, tensors: Any, opts: Any = None, **words: Any) -> Any:
        return self._sum("allreduce_coalesced", tensors, opts, words)

    def _sum(self, name: str, tensors: list[Any], opts: Any, words: dict[str, Any]) -> Any:
        # Before anything of torch's is asked: of its locks a forked child may have some that nobody opens.
        refuse_children(self._process)
        # torch has it with options, and with an operation in their place.
        op = getattr(opts, "reduceOp", words.get("op", opts))
        op = dist.ReduceOp.SUM if op is None else op
        ours = [self._route.operation(tensor, op) if self._route else None for tensor in tensors]
        if not any(ours):
            arguments = (tensors,) if opts is None else (tensors, opts)
            return self._delegated(name, *arguments, **words)
        asynchronous = getattr(opts, "asyncOp", True)
        # Before anything is summed: a tensor that is refused leaves all of them as they are.
        dense = [None if word is None else memory(tensor) for tensor, word in zip(tensors, ours, strict=True)]
        works = [
            self._delegated("allreduce", [tensor], _options(op))
            if word is None
            else self._lanesum(name, (tensor, lies), word, asynchronous)
            for tensor, lies, word in zip(tensors, dense, ours, strict=True)
        ]
        return works[0] if len(works) == 1 else AllWork(works, list(tensors))

    def _lanesum(self, name: str, tensor_and_memory: tuple[Any, Any], op: Any, asynchronous: bool) -> Any:
        assert self._lanes is not None
        tensor, dense = tensor_and_memory
        mark, work = label(tensor), None
        if tensor.device.type == "cuda":
            work = StreamWork(self._lanes.check, self._lanes.on_stream(dense, op, mark), tensor, asynchronous)
        else:
            work = HostWork([tensor], self._lanes.on_host(dense, op, mark, asynchronous))
        self._ran[name, "lanesum"] += 1
        return self._noted(work)

    # Everything else.

    def barrier(self, opts: Any = None, **words: Any) -> Any:
        # torch names the GPU of this rank, where Gloo has nothing to do.
        options = dist.BarrierOptions()
        options.timeout = getattr(opts, "timeout", None) or words.get("timeout") or options.timeout
        options.asyncOp = getattr(opts, "asyncOp", True)
        options.device = torch.device("cpu")
        return self._delegated("barrier", options)

    def _delegated(self, name: str, *arguments: Any, **words: Any) -> Any:
        refuse_children(self._process)
        place = torch.device("cpu") if COLLECTIVES[name] is Runner.GLOO else _device((arguments, words))
        device = str(place.type)
        # Here, as not all ranks may come to the call that must know.
        self._delegates.show_gpu(place if device == "cuda" else None)
        delegate, kind = self._delegate(device), self._delegates.kind(device)
        if kind == "NCCL" and self._coalescing is not None and self._nccls is None:
            # Not before something is NCCL's: to make it, all ranks must come.
            self._nccls = delegate
            delegate._start_coalescing(self._coalescing)
        work = getattr(delegate, name)(*arguments, **words)
        self._ran[name, kind.lower()] += 1
        # NCCL coalesces by itself.
        return work if kind == "NCCL" else self._noted(work)

    def _delegate(self, device: str) -> Any:
        new = device not in self._delegates.made
        delegate = self._delegates.of(device)
        if new:
            self._adopt(device)
        return delegate

    def _noted(self, work: Any) -> Any:
        if self._coalesced is not None and work is not None:
            self._coalesced.append(work)
        return work

    def _start_coalescing(self, device: Any) -> None:
        self._coalesced, self._coalescing, self._nccls = [], device, None

    def _end_coalescing(self, device: Any) -> Any:
        works, nccls = self._coalesced or [], self._nccls
        self._coalesced = self._coalescing = self._nccls = None
        if nccls is not None:
            works.append(nccls._end_coalescing(device))
        return AllWork([work for work in works if work is not None], [])

    start_coalescing, end_coalescing = _start_coalescing, _end_coalescing

    # What torch asks of a group besides.

    def getBackendName(self) -> str:
        return "lanesum"

    def get_group_store(self) -> Any:
        return self._store

    @property
    def _device_types(self) -> list[Any]:
        if not self._places:
            # Not before it is asked: a process without GPUs in mind need not wake their driver.
            self._places = [torch.device(each) for each in (("cpu", "cuda") if torch.cuda.is_available() else ("cpu",))]
        return list(self._places)

    def _get_backend(self, device: Any) -> Any:
        kind = torch.device(device).type
        if torch.device(kind) not in self._device_types:
            raise no_place(kind)
        return Face(self._delegates, kind)

    get_backend = _get_backend

    def set_timeout(self, timeout: timedelta) -> None:
        self._delegates.set_timeout(timeout)
        if self._lanes is not None:
            self._lanes.set_timeout(timeout)

    def shutdown(self) -> None:
        if os.getpid() != self._process:
            # It is the parent's.
            return
        if self._lanes is not None:
            self._lanes.close()
        self._delegates.end("shutdown")

    def abort(self) -> None:
        if os.getpid() != self._process:
            return
        if self._lanes is not None:
            self._lanes.abandon()
        self._delegates.end("abort")


def _title(options: Any) -> str:
    return f"group {options.group_id} of {options.group_size} ranks"


def _line(options: Any, why: str | None, fastest: bool) -> str:
    group = _title(options)
    if why is not None:
        return f"{group}: Gloo runs all for CPU tensors, NCCL all for CUDA tensors, lanesum nothing: {why}"
    sums = "all_reduce of float32, float16 and bfloat16 by SUM, MAX and MIN"
    if fastest:
        sums += " (on GPUs below the lengths from which on NCCL is predicted to be faster)"
    return f"{group}: lanesum runs {sums}; Gloo the rest for CPU tensors, NCCL for CUDA tensors"


def _options(op: Any) -> Any:
    options = dist.AllreduceOptions()
    options.reduceOp = op
    return options


def _device(value: Any) -> Any:
    """The device of the first tensor in arguments; the CPU without any."""
    found = _first(value)
    return torch.device("cpu") if found is None else found.device


def _first(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return None
    return next((found for found in map(_first, value) if found is not None), None)


def _delegating(name: str) -> Callable[..., Any]:
    def method(self: LanesumGroup, *arguments: Any, **words: Any) -> Any:
        return self._delegated(name, *arguments, **words)

    return method


def _refusing(name: str, hint: str) -> Callable[..., Any]:
    def method(self: LanesumGroup, *_: Any, **__: Any) -> Any:
        raise RefusedError(f"a group of the backend lanesum has no {name}", hint, "not_in_table")

    return method


def _complete() -> None:
    """Makes the methods of the table."""
    for name in COLLECTIVES:
        if name not in vars(LanesumGroup):
            setattr(LanesumGroup, name, _delegating(name))
    hints = dict(REFUSED)
    for name in unknown(set(dir(dist.ProcessGroup))):
        if callable(getattr(dist.ProcessGroup, name)) and not isinstance(getattr(dist.ProcessGroup, name), type):
            hints[name] = "use a lanesum that knows this version of torch, or a group of another backend"
    for name, hint in hints.items():
        setattr(LanesumGroup, name, _refusing(name, hint))


_complete()


def create(options: Any, backend_options: Any) -> LanesumGroup:
    """What torch calls for each group, on each of its ranks."""
    known = (dist.ProcessGroupNCCL.Options,) if dist.is_nccl_available() else ()
    if backend_options is not None and not isinstance(backend_options, known):
        raise TensorError(
            f"the backend lanesum takes no pg_options of type {type(backend_options).__name__}",
            "give none, or ProcessGroupNCCL.Options for what NCCL runs",
            "options",
        )
    return LanesumGroup(options, backend_options)


def _of(group: Any) -> LanesumGroup:
    found = dist.distributed_c10d._get_default_group() if group is None else group
    if not isinstance(found, LanesumGroup):
        raise TypeError("the group is of another backend; hint: make it with backend='lanesum'")
    return found


def counters(group: Any = None) -> dict[str, dict[str, int]]:
    """How often this rank has called each collective of the group, by who ran it."""
    counted: dict[str, dict[str, int]] = {}
    for (name, runner), times in sorted(_of(group)._ran.items()):
        counted.setdefault(name, {})[runner] = times
    return counted


def communicators(group: Any = None) -> dict[str, Communicator]:
    """lanesum's communicators of the group by type of device, to ask for `explain` and `counters`. They are the group's."""
    lanes = _of(group)._lanes
    return {} if lanes is None else lanes.made
