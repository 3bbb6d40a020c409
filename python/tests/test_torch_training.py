"""What people run over torch.distributed, on the backend `lanesum` and on Gloo: training, tensor parallelism, compiled programs, a language model."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from crew import Crew, grouped

torch = pytest.importorskip("torch")
import lanesum.torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed._functional_collectives as functional  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402

CLOSE = {"float32": 1e-6, "bfloat16": 2e-2}


class Mlp(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(16, 64), torch.nn.Linear(64, 16)

    def forward(self, inputs: Any) -> Any:
        return self.down(torch.relu(self.up(inputs)))


def model(word: str) -> Any:
    torch.manual_seed(3)
    return Mlp().to(getattr(torch, word))


def batch(rank: int, turn: int, word: str) -> Any:
    return torch.randn(8, 16, generator=torch.Generator().manual_seed(100 * turn + rank)).to(getattr(torch, word))


def step(network: Any, optimizer: Any, inputs: Any) -> None:
    optimizer.zero_grad()
    (network(inputs) - inputs).square().mean().backward()
    optimizer.step()


def data_parallel(rank: int, world: int, port: str, backend: str, word: str) -> tuple[list[Any], dict[str, Any]]:
    with grouped(rank, world, port, backend):
        # Several buckets, so that sums are under way while others begin.
        network = torch.nn.parallel.DistributedDataParallel(model(word), bucket_cap_mb=0.002)
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        for turn in range(4):
            step(network, optimizer, batch(rank, turn, word))
        counted = lanesum.torch.counters() if backend == "lanesum" else {}
    return [parameter.detach().clone() for parameter in network.parameters()], counted


def hooked(rank: int, world: int, port: str) -> list[list[Any]]:
    """Hooks of DDP that sum again where a sum has ended."""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    results = []
    with grouped(rank, world, port):
        for hook, state in (
            (default_hooks.bf16_compress_hook, None),
            (powerSGD_hook.powerSGD_hook, powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2)),
        ):
            network = torch.nn.parallel.DistributedDataParallel(model("float32"))
            network.register_comm_hook(state, hook)
            optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
            for turn in range(4):
                step(network, optimizer, batch(rank, turn, "float32"))
            results.append([parameter.detach().clone() for parameter in network.parameters()])
    return results


def test_hooks_of_data_parallel_training(crew: Crew) -> None:
    # Not beside Gloo, whose threads run what Python puts behind its futures, and can meet the end of their group.
    first, second = crew.do(hooked)
    for ours, peers in zip(first[0] + first[1], second[0] + second[1], strict=True):
        assert torch.equal(ours, peers) and bool(ours.isfinite().all())
    for ours, ones in zip(first[0], alone(2, "float32"), strict=True):
        torch.testing.assert_close(ours, ones, rtol=2e-2, atol=2e-2)


def sharded(rank: int, world: int, port: str, backend: str) -> list[Any]:
    from torch.distributed.fsdp import fully_shard

    with grouped(rank, world, port, backend):
        mesh = init_device_mesh("cpu", (world,))
        network = model("float32")
        for part in (network.up, network.down, network):
            fully_shard(part, mesh=mesh)
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        for turn in range(3):
            step(network, optimizer, batch(rank, turn, "float32"))
        norm = torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        return [each.full_tensor().detach().clone() for each in (*network.parameters(), norm)]


def test_sharded_training(crew: Crew) -> None:
    first, second = crew.do(sharded, "lanesum")
    other, _ = crew.do(sharded, "gloo")
    for ours, peers, gloos in zip(first, second, other, strict=True):
        assert torch.equal(ours, peers)
        torch.testing.assert_close(ours, gloos, rtol=1e-6, atol=1e-6)


def alone(world: int, word: str) -> list[Any]:
    network = model(word)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for turn in range(4):
        step(network, optimizer, torch.cat([batch(rank, turn, word) for rank in range(world)]))
    return [parameter.detach() for parameter in network.parameters()]


@pytest.mark.parametrize("word", ["float32", "bfloat16"])
def test_data_parallel_training(crew: Crew, word: str) -> None:
    (first, counted), (second, _) = crew.do(data_parallel, "lanesum", word)
    (other, _), _ = crew.do(data_parallel, "gloo", word)
    for ours, peers, gloos, ones in zip(first, second, other, alone(2, word), strict=True):
        assert torch.equal(ours, peers), "the bits are those of all ranks"
        torch.testing.assert_close(ours, gloos, rtol=CLOSE[word], atol=CLOSE[word])
        torch.testing.assert_close(ours, ones, rtol=CLOSE[word], atol=CLOSE[word])
    assert counted["allreduce"]["lanesum"] > 4 and "gloo" not in counted["allreduce"]


def tensor_parallel(rank: int, world: int, port: str, backend: str) -> tuple[list[Any], dict[str, Any]]:
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    with grouped(rank, world, port, backend):
        mesh = init_device_mesh("cpu", (world,))
        network = parallelize_module(model("float32"), mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        for turn in range(4):
            step(network, optimizer, batch(0, turn, "float32"))
        whole = [parameter.full_tensor().detach().clone() for parameter in network.parameters()]
        counted = lanesum.torch.counters() if backend == "lanesum" else {}
    return whole, counted


def test_tensor_parallel_training(crew: Crew) -> None:
    (first, counted), (second, _) = crew.do(tensor_parallel, "lanesum")
    (other, _), _ = crew.do(tensor_parallel, "gloo")
    for ours, peers, gloos, ones in zip(first, second, other, alone(1, "float32"), strict=True):
        assert torch.equal(ours, peers), "the bits are those of all ranks"
        torch.testing.assert_close(ours, gloos, rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(ours, ones, rtol=1e-5, atol=1e-5)
    assert counted["allreduce"]["lanesum"] >= 4


def distributed_tensors(rank: int, world: int, port: str) -> dict[str, Any]:
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

    with grouped(rank, world, port):
        mesh = init_device_mesh("cpu", (world,))
        mine = torch.arange(12.0).view(3, 4) * (rank + 1)
        for kind, want in (("sum", 3.0), ("max", 2.0), ("avg", 1.5)):
            whole = DTensor.from_local(mine, mesh, [Partial(kind)]).redistribute(mesh, [Replicate()])
            assert torch.equal(whole.to_local() + 0, torch.arange(12.0).view(3, 4) * want), kind
        parts = distribute_tensor(torch.arange(12.0).view(4, 3), mesh, [Shard(0)])
        assert parts.sum().full_tensor().item() == 66 and torch.equal(parts.full_tensor(), torch.arange(12.0).view(4, 3))
        # Of a mesh of two dimensions, whose rows and columns are groups of their own.
        grid = init_device_mesh("cpu", (1, world), mesh_dim_names=("replicas", "shards"))
        whole = DTensor.from_local(mine, grid["shards"], [Partial()]).redistribute(grid["shards"], [Replicate()])
        assert torch.equal(whole.to_local() + 0, torch.arange(12.0).view(3, 4) * 3)
        counted = lanesum.torch.counters()
        assert grid.get_group("replicas").name() == "lanesum"
    return counted


def test_distributed_tensors(crew: Crew) -> None:
    for counted in crew.do(distributed_tensors):
        assert counted["allreduce"]["lanesum"] >= 3


def in_place(inputs: Any) -> Any:
    partial = inputs * 2
    dist.all_reduce(partial)
    return partial + 1


def largest(inputs: Any) -> Any:
    # Rounded once: what torch.compile fuses it rounds less often.
    partial = inputs.relu().bfloat16()
    dist.all_reduce(partial, dist.ReduceOp.MAX)
    return partial


def of_functions(inputs: Any) -> Any:
    return functional.all_reduce(inputs.relu(), "sum", dist.group.WORLD) * 3


def compiled(rank: int, world: int, port: str, how: str) -> dict[str, Any]:
    torch._dynamo.reset()
    with grouped(rank, world, port):
        for program in (in_place, largest, of_functions):
            inputs = torch.randn(31, generator=torch.Generator().manual_seed(rank))
            fast = torch.compile(program, fullgraph=True, backend=how)
            before = lanesum.torch.counters().get("allreduce", {}).get("lanesum", 0)
            for _ in range(2):
                assert torch.equal(fast(inputs), program(inputs)), program
            assert lanesum.torch.counters()["allreduce"]["lanesum"] == before + 4
        return lanesum.torch.counters()


@pytest.mark.parametrize("how", ["aot_eager", "inductor"])
def test_compiled_programs(crew: Crew, how: str) -> None:
    if how == "inductor" and shutil.which("g++") is None:
        pytest.skip("no C++ compiler for torch.compile")
    for counted in crew.do(compiled, how):
        assert counted["allreduce"] == {"lanesum": 12}


def language_model(rank: int, world: int, port: str, backend: str, folder: str) -> tuple[list[int], dict[str, Any]]:
    from transformers import AutoModelForCausalLM

    # As torchrun sets them: transformers reads them beside the group.
    settings = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world), "HF_HUB_OFFLINE": "1"}
    os.environ.update(settings)
    try:
        with grouped(rank, world, port, backend):
            network = AutoModelForCausalLM.from_pretrained(folder, tp_plan="auto")
            tokens = network.generate(torch.arange(2, 12).unsqueeze(0), max_new_tokens=12, do_sample=False)
            counted = lanesum.torch.counters() if backend == "lanesum" else {}
    finally:
        for name in settings:
            os.environ.pop(name)
    return tokens[0].tolist(), counted


def test_a_language_model_says_the_same(crew: Crew, tmp_path: Path) -> None:
    pytest.importorskip("accelerate", reason="transformers needs it for tp_plan")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=128,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        # With transformers' own range a model says one word again and again.
        initializer_range=0.3,
    )
    whole = transformers.LlamaForCausalLM(config)
    whole.save_pretrained(tmp_path)
    (ours, counted), (peers, _) = crew.do(language_model, "lanesum", str(tmp_path))
    (gloos, _), _ = crew.do(language_model, "gloo", str(tmp_path))
    alone = whole.generate(torch.arange(2, 12).unsqueeze(0), max_new_tokens=12, do_sample=False)[0].tolist()
    assert ours == peers == gloos == alone and len(set(ours)) > 14
    # Two sums a layer and one of the embeddings, for each token.
    assert counted["allreduce"]["lanesum"] == 12 * 5 and "gloo" not in counted["allreduce"]
