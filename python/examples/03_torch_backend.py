"""torch.distributed on the backend `lanesum`: `torchrun --nproc-per-node 2 python/examples/03_torch_backend.py`.

`lanesum launch -n 2 -- python python/examples/03_torch_backend.py` starts it as well.
"""

import logging
import os
import tempfile

import lanesum.torch
import torch
import torch.distributed as dist

logging.basicConfig(format="%(message)s")
logging.getLogger("lanesum.torch").setLevel(logging.INFO)  # one line a group: who runs what

# torchrun says where the ranks meet; `lanesum launch` gives a name that no other job has.
meeting = None
if "MASTER_ADDR" not in os.environ:
    meeting = f"file://{tempfile.gettempdir()}/torch-{os.environ['LANESUM_RENDEZVOUS']}"
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
dist.init_process_group("lanesum", init_method=meeting, rank=rank, world_size=world)

gradients = torch.full((7168,), rank + 1.0, dtype=torch.bfloat16)
dist.all_reduce(gradients)
assert bool((gradients == world * (world + 1) / 2).all())

steps = torch.tensor([rank])  # whole numbers are Gloo's
work = dist.all_reduce(steps, dist.ReduceOp.MAX, async_op=True)
assert work is not None
work.wait()
assert steps.item() == world - 1

names = [None] * world
dist.all_gather_object(names, f"rank {rank}")
if rank == 0:
    print(names, lanesum.torch.counters())
    print(lanesum.torch.communicators()["cpu"].explain(gradients))
dist.barrier()
dist.destroy_process_group()
