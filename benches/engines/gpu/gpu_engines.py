"""The all-reduces that `gpu_peers.py` times: how each is prepared, called and released.

Each class is one peer. A peer is made once for a process and gets new buffers for each size. `call` enqueues one
all-reduce on the current stream and returns; what has to happen before (registration, workspaces, tuning) is done in
`prepare`, what has to happen after a capture in `captured`. Whatever cannot run raises `Missing` with the reason.
"""

import ctypes
import importlib
import os

import torch
import torch.distributed as dist

BLOCKS_TOGETHER = 128
"""Blocks that may wait for each other on one GPU; ranks that share it share them."""


class Missing(Exception):
    """This peer, or this size of it, cannot run here; the text says why."""


class Peer:
    """What all peers have in common."""

    name = ""
    in_place = False
    """Whether the result overwrites the input. Then each call of a graph has an input of its own."""

    def __init__(self, job):
        self.job = job

    @staticmethod
    def build_specs():
        """What has to be compiled for it: specifications of FlashInfer's build."""
        return []

    def choices(self, numel):
        """Ways of running one size, all of which are timed; the fastest is reported."""
        return ["default"]

    def empty(self, count, numel):
        """Memory for `count` inputs of `numel` elements."""
        return [torch.empty(numel, dtype=self.job.dtype, device="cuda") for _ in range(count)]

    def prepare(self, choice, inputs, outputs):
        """Before the first call of a size; collective."""

    def call(self, source, target):
        """Enqueues one all-reduce."""
        raise NotImplementedError

    def captured(self):
        """After a capture; collective."""

    def release(self):
        """After the last call of a size that all ranks have prepared; collective."""


def flashinfer(module):
    try:
        return importlib.import_module(f"flashinfer.{module}")
    except ImportError as cause:
        raise Missing(f"flashinfer.{module} cannot be imported: {cause}") from cause


class PcieIpc(Peer):
    """FlashInfer's all-reduce for GPUs behind PCIe, with the launch configurations that it ships."""

    name = "flashinfer_pcie_ipc"
    tuned = False

    def __init__(self, job):
        super().__init__(job)
        self.module = flashinfer("comm.pcie_ipc_ar")
        if job.world not in (2, 4, 8):
            raise Missing(f"it serves 2, 4 or 8 ranks, not {job.world}")
        if job.dtype not in (torch.bfloat16, torch.float16):
            raise Missing(f"it sums bf16 and f16, not {job.dtype_name}")
        self.module.get_pcie_ipc_comm_module()
        self.workspace = None

    @staticmethod
    def build_specs():
        return [flashinfer("jit.comm").gen_pcie_ipc_comm_module()]

    def prepare(self, choice, inputs, outputs):
        numel = inputs[0].numel()
        kind = "tuned" if self.tuned else "untuned"
        table = f"{kind}-{self.job.world}x{self.job.sharing}-{self.job.dtype_name}-{numel}.json"
        # A workspace of exactly this size is what its documentation asks for. One row of the size is one shape to tune.
        self.workspace = self.module.PcieIpcAllReduceWorkspace(
            group=dist.group.WORLD,
            max_numel=numel,
            dtype=self.job.dtype,
            max_blocks=BLOCKS_TOGETHER // self.job.sharing,
            tune_batches=(1,),
            tune_cache=os.path.join(self.job.cache, table),
        )
        shape = inputs[0].view(1, numel)
        if not self.workspace.supports(shape):
            self.release()
            raise Missing(f"it does not support {numel} elements at {self.job.world} ranks")
        if self.tuned and not os.path.isfile(os.path.join(self.job.cache, table)):
            with self.job.alive("tuning"):
                self.workspace.tune([numel], dtype=self.job.dtype)
            self.workspace.rebind_stream()
        self.workspace.prepare([(1, numel)], dtype=self.job.dtype)

    def call(self, source, target):
        self.workspace.all_reduce(source.view(1, -1), out=target.view(1, -1))

    def release(self):
        if self.workspace is not None:
            self.workspace.destroy()
            self.workspace = None


class PcieIpcTuned(PcieIpc):
    """The same after its own search over launch configurations, for each size."""

    name = "flashinfer_pcie_ipc_tuned"
    tuned = True

    @staticmethod
    def build_specs():
        return [*PcieIpc.build_specs(), flashinfer("jit.tllm_utils").gen_trtllm_utils_module()]


class Vllm(Peer):
    """vLLM's custom all-reduce kernel as FlashInfer ports it, told that all links are NVLink."""

    name = "flashinfer_vllm"
    STAGED = 16 << 20

    def __init__(self, job):
        super().__init__(job)
        self.ipc = flashinfer("comm.cuda_ipc")
        self.module = flashinfer("comm.vllm_ar")
        if job.world not in (2, 4, 6, 8):
            raise Missing(f"it serves 2, 4, 6 or 8 ranks, not {job.world}")
        self.module.get_vllm_comm_module()
        self.staged = self.ipc.create_shared_buffer(self.STAGED)
        self.handle = None

    @staticmethod
    def build_specs():
        return [flashinfer("jit.comm").gen_vllm_comm_module()]

    def prepare(self, choice, inputs, outputs):
        numel = inputs[0].numel()
        self.bytes = numel * inputs[0].element_size()
        if self.bytes % 16:
            raise Missing("it sums multiples of 16 bytes")
        self.blocks = min(36, BLOCKS_TOGETHER // self.job.sharing)
        # Signals, and behind them the room in which its two-stage kernel keeps shards.
        self.signals = self.ipc.create_shared_buffer(self.module.meta_size() + self.bytes)
        mine = ctypes.c_void_p(self.signals[self.job.rank])
        self.ipc.cudart.cudaMemset(mine, 0, self.module.meta_size())
        self.table = torch.empty(8 << 20, dtype=torch.uint8, device="cuda")
        # Ranks are prepared together: none calls before all have come to the end of this.
        torch.cuda.synchronize()
        self.handle = self.module.init_custom_ar(self.signals, self.table, self.job.rank, True)
        self.module.register_buffer(self.handle, self.staged)

    def call(self, source, target):
        if torch.cuda.is_current_stream_capturing():
            self.module.all_reduce(self.handle, source, target, 0, 0, self.blocks)
        elif self.bytes > self.STAGED:
            raise Missing(f"eager calls are staged in a buffer of {self.STAGED} bytes here")
        else:
            staged = self.staged[self.job.rank]
            self.module.all_reduce(self.handle, source, target, staged, self.STAGED, self.blocks)

    def captured(self):
        # Every input in the graph is registered with every rank, as vLLM does it.
        mine = self.job.together(lambda: self.module.get_graph_buffer_ipc_meta(self.handle))
        all_ranks = self.job.gather((list(mine[0]), list(mine[1])))
        self.module.register_graph_buffers(
            self.handle, [handles for handles, _ in all_ranks], [offsets for _, offsets in all_ranks]
        )

    def release(self):
        if self.handle is not None:
            self.job.together(torch.cuda.synchronize)
            self.module.dispose(self.handle)
            self.ipc.free_shared_buffer(self.signals)
            self.handle = None


class TrtLlm(Peer):
    """TensorRT-LLM's fused all-reduce as FlashInfer ports it, with nothing fused."""

    name = "flashinfer_trtllm"

    def __init__(self, job):
        super().__init__(job)
        self.module = flashinfer("comm.trtllm_ar")
        if job.world not in (2, 4, 8, 16):
            raise Missing(f"it serves 2, 4, 8 or 16 ranks, not {job.world}")
        self.module.get_trtllm_comm_module()
        self.handles = None

    @staticmethod
    def build_specs():
        return [flashinfer("jit.comm").gen_trtllm_comm_module()]

    def choices(self, numel):
        return ["plain launches", "programmatic launches"]

    def prepare(self, choice, inputs, outputs):
        numel = inputs[0].numel()
        widths = [width for width in (7168, 8192, 4096, 2048, 1024) if numel % width == 0]
        if not widths:
            raise Missing(f"{numel} elements are no number of rows of a usual width")
        self.width = widths[0]
        self.rows = numel // self.width
        self.early = choice == "programmatic launches"
        self.handles, self.workspace, self.metadata = self.module.trtllm_create_ipc_workspace_for_all_reduce_fusion(
            self.job.rank,
            self.job.world,
            max(self.rows, 1),
            self.width,
            use_fp32_lamport=self.job.dtype == torch.float32,
            group=dist.group.WORLD,
            create_metadata=True,
        )

    def call(self, source, target):
        self.module.trtllm_allreduce_fusion(
            allreduce_in=source,
            world_size=self.job.world,
            world_rank=self.job.rank,
            token_num=self.rows,
            hidden_dim=self.width,
            workspace_ptrs=self.workspace,
            launch_with_pdl=self.early,
            trigger_completion_at_end=True,
            fp32_acc=True,
            pattern_code=self.module.AllReduceFusionPattern.kAllReduce,
            use_oneshot=None,
            allreduce_out=target,
            residual_in=None,
            residual_out=None,
            norm_out=None,
            quant_out=None,
            scale_out=None,
            rms_gamma=None,
            rms_eps=None,
            scale_factor=None,
            layout_code=None,
            metadata=self.metadata,
        )

    def release(self):
        if self.handles is not None:
            self.job.together(torch.cuda.synchronize)
            self.module.trtllm_destroy_ipc_workspace_for_all_reduce_fusion(self.handles, dist.group.WORLD)
            self.handles = None


class SymmMem(Peer):
    """PyTorch's symmetric memory, without multicast."""

    name = "torch_symm_mem"

    def __init__(self, job):
        super().__init__(job)
        try:
            self.symm_mem = importlib.import_module("torch.distributed._symmetric_memory")
        except ImportError as cause:
            raise Missing(f"this PyTorch has no symmetric memory: {cause}") from cause
        if job.dtype == torch.float16:
            raise Missing("it sums f32 and bf16, not f16")
        self.group = dist.group.WORLD.group_name
        self.choice = "one shot"

    def choices(self, numel):
        return ["one shot", "two shots"]

    @property
    def in_place(self):
        return self.choice == "two shots"

    def empty(self, count, numel):
        # One allocation, one rendezvous; each input is a slice that begins at a multiple of 256 bytes.
        stride = -(-numel // 128) * 128
        device = torch.device("cuda", torch.cuda.current_device())
        pool = self.symm_mem.empty(count * stride, dtype=self.job.dtype, device=device)
        self.symm_mem.rendezvous(pool, self.group)
        return [pool[index * stride : index * stride + numel] for index in range(count)]

    def call(self, source, target):
        if self.choice == "one shot":
            torch.ops.symm_mem.one_shot_all_reduce_out(source, "sum", self.group, target)
        else:
            torch.ops.symm_mem.two_shot_all_reduce_(source, "sum", self.group)


class Nccl(Peer):
    """NCCL through PyTorch, in place."""

    name = "nccl"
    in_place = True

    def __init__(self, job):
        super().__init__(job)
        if job.sharing > 1:
            raise Missing("NCCL refuses two ranks on one GPU")
        if not dist.is_nccl_available():
            raise Missing("this PyTorch has no NCCL")
        self.group = dist.new_group(backend="nccl")

    def call(self, source, target):
        dist.all_reduce(source, group=self.group)


PEERS = {peer.name: peer for peer in (PcieIpc, PcieIpcTuned, Vllm, TrtLlm, SymmMem, Nccl)}
