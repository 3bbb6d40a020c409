"""One rank of other people's all-reduces on GPUs, timed in the shape in which `lanesum bench` times its own.

    python3 gpu_peers.py --list [--build] --engine A,B --cache DIR
    python3 gpu_peers.py --engine A,B --rank R --world W --port P --sizes 8192,43008 --dtype bf16
                         --calls 122,122 --warm-ups 5,5 --replays 50,50 [--no-graph] [--eager] --cache DIR

The shape: `calls` all-reduces over a few inputs in turn, captured in one CUDA graph. For a sample all ranks meet, then
each replays the graph twice behind each other; device events time the second, which every rank starts when the last
all-reduce of the first has brought all to the same point. A sample is the time of that replay divided by its calls.
Each call has an output of its own. Before anything is timed, and again afterwards, outputs are poisoned and the result
of every call compared with sums in double precision.

What fails on one rank fails on all: each step ends with a word from every rank, so that none waits for one that gave up,
and the reason is that of the rank which failed. A rank whose GPU takes no more work ends its process, and all with it.

Each line of standard output is a JSON object:

    {"event": "alive", "doing": TEXT}                                   a sign of life
    {"event": "listed", "peer": P, "missing": REASON or null}           one a peer, with --list
    {"event": "built", "seconds": S, "failed": REASON or null}          with --build
    {"event": "begin", "peer": P}                                       what follows is about this peer
    {"event": "row", "peer": P, "bytes": B, "graph": BOOL, "choice": TEXT, "us": [...], "max_error": E, "bound": E}
    {"event": "trouble", "reason": TEXT}                                a step failed here; the others may not live to hear of it
    {"event": "missing", "peer": P, "bytes": B or null, "graph": BOOL or null, "reason": TEXT}
    {"event": "done"}
"""

import argparse
import contextlib
import importlib.util
import json
import os
import statistics
import sys
import threading
import time
from datetime import timedelta

# Multicast is a property of one kind of switch; what is compared here has to work over any link.
os.environ.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")
os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

NAMES = (
    "flashinfer_pcie_ipc",
    "flashinfer_pcie_ipc_tuned",
    "flashinfer_vllm",
    "flashinfer_trtllm",
    "torch_symm_mem",
    "nccl",
)
SMALL = 128 << 10
SPENT = 3
"""The exit code of ranks whose GPU, on one of them at least, takes no more work."""
ALIVE_AT_MOST = 300.0
# What libraries print must not end up between the lines of the protocol.
OUT = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


SAYING = threading.Lock()


def say(event, **fields):
    with SAYING:
        OUT.write(json.dumps({"event": event, **fields}) + "\n")
        OUT.flush()


@contextlib.contextmanager
def alive(doing):
    """Says every second that a long step goes on, for a bounded time."""
    over = threading.Event()

    def tell():
        end = time.monotonic() + ALIVE_AT_MOST
        while not over.wait(1.0) and time.monotonic() < end:
            say("alive", doing=doing)

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def missing_module(name):
    """Why a peer cannot be used at all, as far as that shows without importing it."""
    wanted = ["torch", "flashinfer"] if name.startswith("flashinfer") else ["torch"]
    for module in wanted:
        if importlib.util.find_spec(module) is None:
            return f"this Python has no module {module}"
    return None


def list_peers(arguments):
    usable = []
    for name in arguments.engine:
        reason = missing_module(name)
        say("listed", peer=name, missing=reason)
        if reason is None:
            usable.append(name)
    if arguments.build:
        build(usable)
    say("done")


def build(names):
    """Compiles what FlashInfer's peers need, all at once, before any rank waits for another."""
    if not any(name.startswith("flashinfer") for name in names):
        return
    started = time.monotonic()
    failed = None
    with alive("building"):
        try:
            compile_for(names)
        except Exception as cause:  # The ranks will say which peers cannot run; others may.
            failed = first_line(cause)
            print(cause, file=sys.stderr)
    say("built", seconds=round(time.monotonic() - started, 1), failed=failed)


def compile_for(names):
    import gpu_engines

    specs = {spec.name: spec for name in names for spec in gpu_engines.PEERS[name].build_specs()}
    from flashinfer.jit.core import build_jit_specs

    build_jit_specs(list(specs.values()), verbose=False)


def first_line(cause):
    text = str(cause).strip() or "no reason given"
    return f"{type(cause).__name__}: {text.splitlines()[0][:300]}"


class Job:
    """What a rank knows of the run."""

    def __init__(self, arguments):
        import torch
        import torch.distributed as dist

        self.torch, self.dist = torch, dist
        self.rank, self.world = arguments.rank, arguments.world
        # Of the size at hand.
        self.calls = self.warm_ups = self.replays = 0
        self.dtype_name = arguments.dtype
        self.dtype = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[arguments.dtype]
        self.cache = arguments.cache
        self.alive = alive
        devices = torch.cuda.device_count()
        if devices == 0:
            raise RuntimeError("PyTorch finds no GPU")
        self.sharing = -(-self.world // devices)
        torch.cuda.set_device(self.rank % devices)
        dist.init_process_group(
            "gloo",
            init_method=f"tcp://127.0.0.1:{arguments.port}",
            rank=self.rank,
            world_size=self.world,
            timeout=timedelta(minutes=10),
        )
        self.stream = torch.cuda.Stream()

    def meet(self):
        self.dist.barrier()

    def met(self, fails=False):
        """Meets the others; whether all of them can go on. Costs less than telling reasons."""
        word = self.torch.tensor([int(fails)], dtype=self.torch.int32)
        self.dist.all_reduce(word, op=self.dist.ReduceOp.MAX)
        return not word.item()

    def gather(self, value):
        values = [None] * self.world
        self.dist.all_gather_object(values, value)
        return values

    def together(self, step):
        """Runs a step on every rank; if it fails on one, it fails on all, for that rank's reason."""
        value, reason = None, None
        try:
            value = step()
        except Exception as cause:  # Told to the others, who would wait for this rank otherwise.
            reason = reason_of(cause)
            say("trouble", reason=reason)
        return self.agreed(value, reason)

    def agreed(self, value, reason):
        """The value, unless some rank has a reason why there is none."""
        reasons = self.gather(reason)
        failed = [rank for rank, reason in enumerate(reasons) if reason is not None]
        if not failed:
            return value
        first = reasons[failed[0]]
        # What all ranks say is about none of them.
        alone = any(reason != first for reason in reasons)
        raise Stopped(f"rank {failed[0]}: {first}" if alone else first)

    def usable(self):
        """Whether the GPUs of all ranks still take work: after some errors a process can use its GPU no more."""
        try:
            self.torch.cuda.synchronize()
            return self.met()
        except Exception:
            return self.met(fails=True)


def reason_of(cause):
    """In words of ours, if they are ours."""
    return str(cause) if type(cause).__name__ in ("Missing", "Wrong", "Stopped") else first_line(cause)


class Wrong(Exception):
    """Results are not sums."""


class Stopped(Exception):
    """A step failed on at least one rank."""


class Buffers:
    """Inputs of this rank, outputs, and what the outputs have to be."""

    def __init__(self, job, peer, numel):
        torch = job.torch
        self.job, self.peer = job, peer
        patterns = 7 if numel * job.dtype.itemsize <= SMALL else 3
        self.inputs = peer.empty(job.calls if peer.in_place else patterns, numel)
        outputs = (torch.empty(numel, dtype=job.dtype, device="cuda") for _ in range(job.calls))
        self.outputs = self.inputs if peer.in_place else list(outputs)
        self.sources, self.sums, self.scales = [], [], []
        for pattern in range(patterns):
            total = torch.zeros(numel, dtype=torch.float64, device="cuda")
            scale = torch.zeros_like(total)
            for rank in range(job.world):
                generator = torch.Generator().manual_seed(1000 * pattern + rank)
                source = torch.randn(numel, generator=generator).to(job.dtype)
                if rank == job.rank:
                    self.sources.append(source.cuda())
                exact = source.cuda().double()
                total += exact
                scale += exact.abs()
            self.sums.append(total)
            self.scales.append(scale)

    def fill(self):
        """Inputs as they were, outputs such that nothing old passes for a result."""
        for output in self.outputs:
            output.fill_(float("nan"))
        for index, one in enumerate(self.inputs):
            one.copy_(self.sources[index % len(self.sources)])

    def run(self):
        for call in range(self.job.calls):
            self.peer.call(self.inputs[call % len(self.inputs)], self.outputs[call])

    def error(self, bound):
        """The largest error, as a part of the sum of the magnitudes that were added."""
        worst = 0.0
        for call, output in enumerate(self.outputs):
            pattern = call % len(self.sources)
            error = (output.double() - self.sums[pattern]).abs() / self.scales[pattern]
            # What is no number is as wrong as can be.
            error = float(self.job.torch.nan_to_num(error, nan=float("inf")).max())
            if not error <= bound:
                raise Wrong(
                    f"wrong sums: call {call} is off by {error:.3g} of its addends, {bound:.3g} would be rounding"
                )
            worst = max(worst, error)
        return worst


def sample(job, run):
    """Microseconds a call of each timed replay, or why there are none."""
    torch = job.torch
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times, reason = [], None
    told = time.monotonic()
    for replay in range(job.warm_ups + job.replays):
        if time.monotonic() - told > 1.0:
            told = time.monotonic()
            say("alive", doing=f"replay {replay}")
        # A rank that fails says so where the others expect it.
        if not job.met(fails=reason is not None):
            break
        try:
            run()
            start.record()
            run()
            end.record()
            end.synchronize()
            if replay >= job.warm_ups:
                times.append(start.elapsed_time(end) * 1000.0 / job.calls)
        except Exception as cause:
            reason = reason_of(cause)
            say("trouble", reason=reason)
    return job.agreed(times, reason)


def checked(job, buffers, run, bound):
    """The largest error of any call. All ranks tell their verdict before any goes on."""

    def ready():
        buffers.fill()
        job.torch.cuda.synchronize()

    def judged():
        run()
        job.torch.cuda.synchronize()
        return buffers.error(bound)

    job.together(ready)
    return job.together(judged)


def captured(job, peer, buffers):
    """The graph of all calls."""
    graph = job.torch.cuda.CUDAGraph()
    with job.torch.cuda.graph(graph, stream=job.stream, capture_error_mode="thread_local"):
        buffers.run()
    return graph


def time_size(job, peer, numel, modes):
    """One row for each mode: the fastest of the peer's choices, judged by the slowest rank."""
    best, failures = {}, []
    size = numel * job.dtype.itemsize
    for choice in job.together(lambda: peer.choices(numel)):
        peer.choice, prepared = choice, False
        try:
            with alive(f"{peer.name} {size} {choice}"):
                buffers = job.together(lambda: Buffers(job, peer, numel))
            job.together(lambda: peer.prepare(choice, buffers.inputs, buffers.outputs))
            prepared = True
            for graph in modes:
                row = time_mode(job, peer, buffers, graph)
                slowest = max(job.gather(statistics.median(row["us"])))
                if graph not in best or slowest < best[graph][0]:
                    best[graph] = (slowest, {**row, "choice": choice})
        except Stopped as cause:
            failures.append(str(cause) if choice == "default" else f"{choice}: {cause}")
            if not job.usable():
                break
        finally:
            # What only some ranks have prepared they cannot give back together.
            if prepared:
                release(job, peer)
    if not best:
        raise Stopped("; ".join(failures))
    for reason in failures:
        say("missing", peer=peer.name, bytes=size, graph=None, reason=reason)
    return {graph: row for graph, (_, row) in best.items()}


def release(job, peer):
    """What a peer keeps of a size is given back; if that fails, what was measured stays."""
    try:
        job.together(peer.release)
    except Stopped as cause:
        say("alive", doing=f"{peer.name} is not released: {cause}")


def time_mode(job, peer, buffers, as_graph):
    def ran():
        buffers.run()
        job.torch.cuda.synchronize()

    # Without this a first call would load kernels during a capture.
    job.together(ran)
    run = buffers.run
    if as_graph:
        graph = job.together(lambda: captured(job, peer, buffers))
        job.together(peer.captured)
        run = graph.replay
    bound = job.world * job.torch.finfo(job.dtype).eps / 2
    error = checked(job, buffers, run, bound)
    times = sample(job, run)
    return {"us": times, "max_error": max(error, checked(job, buffers, run, bound)), "bound": bound}


def run_ranks(arguments):
    say("alive", doing="importing")
    with alive("importing"):
        import gpu_engines

        job = Job(arguments)
    modes = ([] if arguments.no_graph else [True]) + ([False] if arguments.eager else [])
    sizes = list(zip(arguments.sizes, arguments.calls, arguments.warm_ups, arguments.replays, strict=True))
    for name in arguments.engine:
        with job.torch.cuda.stream(job.stream):
            run_peer(job, gpu_engines.PEERS[name], sizes, modes)
        if not job.usable():
            # The parent starts others for the peers behind this one.
            print("a GPU takes no more work", file=sys.stderr)
            OUT.flush()
            os._exit(SPENT)
    job.meet()
    say("done")
    # Destructors of half a dozen libraries have nothing to add.
    os._exit(0)


def run_peer(job, make, sizes, modes):
    name = make.name
    say("begin", peer=name)
    try:
        with alive(f"loading {name}"):
            peer = job.together(lambda: make(job))
    except Stopped as cause:
        say("missing", peer=name, bytes=None, graph=None, reason=str(cause))
        return
    for size, job.calls, job.warm_ups, job.replays in sizes:
        try:
            rows = time_size(job, peer, size // job.dtype.itemsize, modes)
        except Stopped as cause:
            say("missing", peer=name, bytes=size, graph=None, reason=str(cause))
            if job.usable():
                continue
            return
        for graph, row in rows.items():
            say("row", peer=name, bytes=size, graph=graph, **row)


def numbers(text):
    return [int(number) for number in text.split(",")]


def names(text):
    chosen = [name for name in text.split(",") if name]
    unknown = [name for name in chosen if name not in NAMES]
    if unknown:
        raise argparse.ArgumentTypeError(f"no such peer: {', '.join(unknown)}; there are {', '.join(NAMES)}")
    return chosen


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="say which peers this Python has")
    parser.add_argument("--build", action="store_true", help="with --list: compile what they need")
    parser.add_argument("--engine", type=names, default=list(NAMES), metavar="A,B")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--world", type=int, default=1)
    parser.add_argument("--port", type=int, default=0, help="of rank 0's store on this host")
    parser.add_argument("--sizes", type=numbers, default=[8192], help="bytes of a sum")
    parser.add_argument("--dtype", choices=("bf16", "f16", "f32"), default="bf16")
    parser.add_argument("--calls", type=numbers, default=[122], help="of each size, as the next two")
    parser.add_argument("--warm-ups", type=numbers, default=[5])
    parser.add_argument("--replays", type=numbers, default=[50])
    parser.add_argument("--no-graph", action="store_true", help="leave out the graph")
    parser.add_argument("--eager", action="store_true", help="time calls without a graph too")
    parser.add_argument("--cache", default=os.path.join(os.path.expanduser("~"), ".cache", "lanesum", "peers"))
    return parser.parse_args()


def main():
    arguments = parsed()
    os.makedirs(arguments.cache, exist_ok=True)
    os.environ.setdefault("FLASHINFER_WORKSPACE_BASE", arguments.cache)
    # Whether ranks share a GPU shows only later; each sees to it that its own memory is what it asked for.
    os.environ.setdefault("TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES", "1")
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    if arguments.list:
        list_peers(arguments)
    else:
        run_ranks(arguments)


if __name__ == "__main__":
    main()
