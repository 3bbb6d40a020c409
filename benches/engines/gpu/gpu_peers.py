"""One rank of other people's all-reduces on GPUs, timed in the shape in which `lanesum bench` times its own.

    python3 gpu_peers.py --list [--build] --engine A,B --cache DIR
    python3 gpu_peers.py --engine A,B --rank R --world W --port P --sizes 8192,43008 --dtype bf16
                         --calls 122 --replays 50 [--no-graph] [--eager] --cache DIR

The shape: `calls` all-reduces over a few inputs in turn, captured in one CUDA graph. For a sample all ranks meet, then
each replays the graph twice behind each other; device events time the second, which every rank starts when the last
all-reduce of the first has brought all to the same point. A sample is the time of that replay divided by its calls.
Before anything is timed, outputs are poisoned and the results of a replay compared with sums in double precision.

Each line of standard output is a JSON object:

    {"event": "alive", "doing": TEXT}                                   a sign of life
    {"event": "listed", "peer": P, "missing": REASON or null}           one a peer, with --list
    {"event": "built", "seconds": S, "failed": REASON or null}          with --build
    {"event": "begin", "peer": P}                                       what follows is about this peer
    {"event": "row", "peer": P, "bytes": B, "graph": BOOL, "choice": TEXT, "us": [...], "max_error": E, "bound": E}
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
WARM_UPS = 5
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
        self.calls, self.replays = arguments.calls, arguments.replays
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

    def gather(self, value):
        values = [None] * self.world
        self.dist.all_gather_object(values, value)
        return values

    def together(self, step):
        """Runs a step on every rank; if it fails on one, it fails on all."""
        value, reason = None, None
        try:
            value = step()
        except Exception as cause:  # Told to the others, who would wait for this rank otherwise.
            reason = str(cause) if type(cause).__name__ == "Missing" else first_line(cause)
        reasons = [reason for reason in self.gather(reason) if reason is not None]
        if reasons:
            raise Stopped(reasons[0])
        return value


class Stopped(Exception):
    """A step failed on at least one rank."""


class Buffers:
    """Inputs of this rank, outputs, and what the outputs have to be."""

    def __init__(self, job, peer, numel):
        torch = job.torch
        self.job, self.peer = job, peer
        patterns = 7 if numel * job.dtype.itemsize <= SMALL else 3
        count = job.calls if peer.in_place else patterns
        self.inputs = peer.empty(count, numel)
        self.outputs = self.inputs if peer.in_place else [torch.empty_like(one) for one in self.inputs]
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
        count = len(self.inputs)
        for call in range(self.job.calls):
            self.peer.call(self.inputs[call % count], self.outputs[call % count])

    def error(self):
        """The largest error, as a part of the sum of the magnitudes that were added."""
        worst = 0.0
        for index, output in enumerate(self.outputs):
            pattern = index % len(self.sources)
            error = (output.double() - self.sums[pattern]).abs() / self.scales[pattern]
            worst = max(worst, float(self.job.torch.nan_to_num(error, nan=float("inf")).max()))
        return worst


def sample(job, run):
    """Microseconds a call of each timed replay."""
    torch = job.torch
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    told = time.monotonic()
    for replay in range(WARM_UPS + job.replays):
        if time.monotonic() - told > 1.0:
            told = time.monotonic()
            say("alive", doing=f"replay {replay}")
        job.meet()
        run()
        start.record()
        run()
        end.record()
        end.synchronize()
        if replay >= WARM_UPS:
            times.append(start.elapsed_time(end) * 1000.0 / job.calls)
    return times


def checked(job, buffers, run):
    """The largest error of one run, or the reason why it is wrong."""
    buffers.fill()
    job.torch.cuda.synchronize()
    job.meet()
    run()
    job.torch.cuda.synchronize()
    error = buffers.error()
    bound = job.world * job.torch.finfo(job.dtype).eps / 2
    if not error <= bound:
        raise RuntimeError(f"wrong sums: an element is off by {error:.3g} of its addends, {bound:.3g} would be rounding")
    return error


def captured(job, peer, buffers):
    """The graph of all calls."""
    graph = job.torch.cuda.CUDAGraph()
    with job.torch.cuda.graph(graph, stream=job.stream, capture_error_mode="thread_local"):
        buffers.run()
    return graph


def time_size(job, peer, numel, modes):
    """One row for each mode: the fastest of the peer's choices, judged by the slowest rank."""
    best = {}
    for choice in job.together(lambda: peer.choices(numel)):
        say("alive", doing=f"{peer.name} {numel * job.dtype.itemsize} {choice}")
        peer.choice = choice
        try:
            buffers = job.together(lambda: Buffers(job, peer, numel))
            job.together(lambda: peer.prepare(choice, buffers.inputs, buffers.outputs))
            for graph in modes:
                row = job.together(lambda: time_mode(job, peer, buffers, graph))
                slowest = max(job.gather(statistics.median(row["us"])))
                if graph not in best or slowest < best[graph][0]:
                    best[graph] = (slowest, {**row, "choice": choice})
        except Stopped as cause:
            if choice == peer.choices(numel)[-1] and not best:
                raise
            say("alive", doing=f"{peer.name} {choice}: {cause}")
        finally:
            job.together(peer.release)
    return {graph: row for graph, (_, row) in best.items()}


def time_mode(job, peer, buffers, as_graph):
    # Without this a first call would load kernels during a capture.
    buffers.run()
    job.torch.cuda.synchronize()
    run = buffers.run
    if as_graph:
        graph = captured(job, peer, buffers)
        peer.captured()
        run = graph.replay
    error = checked(job, buffers, run)
    bound = job.world * job.torch.finfo(job.dtype).eps / 2
    return {"us": sample(job, run), "max_error": error, "bound": bound}


def run_ranks(arguments):
    say("alive", doing="importing")
    with alive("importing"):
        import gpu_engines

        job = Job(arguments)
    modes = ([] if arguments.no_graph else [True]) + ([False] if arguments.eager else [])
    for name in arguments.engine:
        with job.torch.cuda.stream(job.stream):
            run_peer(job, gpu_engines.PEERS[name], arguments.sizes, modes)
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
    for size in sizes:
        try:
            rows = time_size(job, peer, size // job.dtype.itemsize, modes)
        except Stopped as cause:
            say("missing", peer=name, bytes=size, graph=None, reason=str(cause))
            continue
        for graph, row in rows.items():
            say("row", peer=name, bytes=size, graph=graph, **row)


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
    parser.add_argument("--sizes", type=lambda text: [int(size) for size in text.split(",")], default=[8192])
    parser.add_argument("--dtype", choices=("bf16", "f16", "f32"), default="bf16")
    parser.add_argument("--calls", type=int, default=122)
    parser.add_argument("--replays", type=int, default=50)
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
