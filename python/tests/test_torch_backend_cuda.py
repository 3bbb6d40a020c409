"""The backend `lanesum` of torch.distributed on real GPUs; skipped where torch sees none. Ranks share GPUs where there are fewer.

NCCL refuses ranks that share one, so that these tests also say that it is left alone until it is needed.
`pytest python/tests/test_torch_backend_cuda.py` needs the wheel, torch, NumPy and pytest, and no Rust.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import lanesum
import pytest
import ranks
from crew import Crew, free_port, grouped

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("torch sees no GPU", allow_module_level=True)
import lanesum.torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed._functional_collectives as functional  # noqa: E402

DTYPES = ("float32", "float16", "bfloat16")
SIZES = (0, 1, 7, 3 * 7168, 300_001)


def take_device(rank: int) -> Any:
    device = torch.device("cuda", rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


def filled(rank: int, size: int = 3 * 7168, dtype: Any = torch.bfloat16) -> Any:
    return torch.full((size,), float(rank + 1), dtype=dtype, device="cuda")


def no_nccl() -> dict[str, Any]:
    counted = lanesum.torch.counters()
    assert not any("nccl" in by for by in counted.values()), counted
    return counted


def sums(rank: int, world: int, port: str) -> None:
    take_device(rank)
    with grouped(rank, world, port):
        calls = 0
        for word in DTYPES:
            for size in SIZES:
                for op, want in (("SUM", 3.0), ("MAX", 2.0), ("MIN", 1.0)):
                    tensor = filled(rank, size, getattr(torch, word))
                    dist.all_reduce(tensor, getattr(dist.ReduceOp, op))
                    # Work behind it on the stream sees the result.
                    assert bool((tensor == want).all()), (word, size, op)
                    calls += 1
        assert no_nccl() == {"allreduce": {"lanesum": calls}}
        assert lanesum.torch.communicators()["cuda"].device == torch.cuda.current_device()
        # Memory of the host by the same group.
        host = torch.full((5,), rank + 1.0)
        dist.all_reduce(host)
        assert host.tolist() == [3.0] * 5 and lanesum.torch.communicators().keys() == {"cpu", "cuda"}


def test_sums(crew: Crew) -> None:
    crew.do(sums)


def bits(rank: int, world: int, port: str) -> bytes:
    device = take_device(rank)
    generator = torch.Generator(device).manual_seed(rank)
    with grouped(rank, world, port):
        tensor = torch.randn(50_021, generator=generator, device=device).bfloat16()
        dist.all_reduce(tensor)
        return bytes(tensor.view(torch.uint8).cpu().numpy().tobytes())


def test_the_bits_are_those_of_all_ranks(crew: Crew) -> None:
    first, second = crew.do(bits)
    assert first == second


def asynchronous(rank: int, world: int, port: str) -> None:
    device = take_device(rank)
    with grouped(rank, world, port):
        side = torch.cuda.Stream()
        for turn in range(20):
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                tensor = filled(rank) * turn
                work = dist.all_reduce(tensor, async_op=True)
            # The stream that is current here follows the other one.
            assert work.wait()
            assert bool((tensor == 3 * turn).all())
            assert work.is_completed() and work.is_success() and work.exception() is None
            tensor.record_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            tensor = filled(rank)
            future = dist.all_reduce(tensor, async_op=True).get_future()
        assert bool((future.wait()[0] == 3).all())
        many = [filled(rank, 1 + turn) for turn in range(30)]
        for work in [dist.all_reduce(tensor, async_op=True) for tensor in many]:
            work.wait()
        assert all(bool((tensor == 3).all()) for tensor in many)
        image = torch.ones(2, 3, 4, 5, device=device).contiguous(memory_format=torch.channels_last)
        dist.all_reduce(image)
        assert bool((image == 2).all())
        no_nccl()


def test_asynchronous_sums_and_streams(crew: Crew) -> None:
    crew.do(asynchronous)


def graphs(rank: int, world: int, port: str) -> None:
    take_device(rank)
    with grouped(rank, world, port):
        tensor = filled(rank)
        # As torch asks for: what is captured has run before on another stream.
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            dist.all_reduce(tensor.clone())
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for turn in range(40):
                work = dist.all_reduce(tensor, dist.ReduceOp.MAX, async_op=turn % 2 == 1)
                if work is not None:
                    work.wait()
                tensor.add_(1)
        for _ in range(3):
            tensor.fill_(rank)
            graph.replay()
            torch.cuda.synchronize()
            assert bool((tensor == world - 1 + 40).all())
        dist.all_reduce(tensor)
        torch.cuda.synchronize()
        no_nccl()
        del graph


def test_graphs(crew: Crew) -> None:
    crew.do(graphs)


def without_tensors(rank: int, world: int, port: str) -> None:
    """What is about processes is Gloo's, whatever GPU it is given."""
    device = take_device(rank)
    with grouped(rank, world, port, device_id=device):
        dist.barrier(device_ids=[device.index])
        dist.barrier()
        objects: list[Any] = [None] * world
        dist.all_gather_object(objects, rank)
        said = ["said", rank]
        dist.broadcast_object_list(said, 1)
        assert objects == list(range(world)) and said == ["said", 1]
        both = dist.new_group([0, 1])
        tensor = filled(rank)
        dist.all_reduce(tensor, group=both)
        assert bool((tensor == 3).all())
        no_nccl()


def test_barriers_and_objects(crew: Crew) -> None:
    crew.do(without_tensors)


def functionals(rank: int, world: int, port: str) -> None:
    take_device(rank)
    torch._dynamo.reset()
    with grouped(rank, world, port):
        from torch.distributed.distributed_c10d import _coalescing_manager

        group = dist.group.WORLD
        assert bool((functional.all_reduce(filled(rank), "sum", group) == 3).all())
        for each in functional.all_reduce_coalesced([filled(rank), filled(rank, 9)], "sum", group):
            assert bool((each == 3).all())
        tensors = [filled(rank, size, torch.float32) for size in (3, 50)]
        with _coalescing_manager():
            for tensor in tensors:
                dist.all_reduce(tensor)
        assert all(bool((tensor == 3).all()) for tensor in tensors)

        def program(inputs: Any) -> Any:
            partial = inputs * 2
            dist.all_reduce(partial)
            return partial + 1

        for how in ("aot_eager", "inductor") if shutil.which("gcc") else ("aot_eager",):
            fast = torch.compile(program, fullgraph=True, backend=how)
            for _ in range(3):
                assert bool((fast(filled(rank)) == 7).all())
        no_nccl()


def test_functional_coalesced_and_compiled(crew: Crew) -> None:
    crew.do(functionals)


def training(rank: int, world: int, port: str, place: str) -> list[Any]:
    device = take_device(rank) if place == "cuda" else torch.device("cpu")
    with grouped(rank, world, port):
        torch.manual_seed(3)
        layers = [torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 16)]
        network = torch.nn.Sequential(*layers).to(device)
        # Alike already: NCCL would copy them, and can't where ranks share a GPU.
        parallel = torch.nn.parallel.DistributedDataParallel(network, bucket_cap_mb=0.002, init_sync=False)
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        for turn in range(4):
            inputs = torch.randn(8, 16, generator=torch.Generator().manual_seed(100 * turn + rank)).to(device)
            optimizer.zero_grad()
            (parallel(inputs) - inputs).square().mean().backward()
            optimizer.step()
        assert no_nccl()["allreduce"]["lanesum"] > 4
        return [parameter.detach().cpu() for parameter in network.parameters()]


def test_data_parallel_training(crew: Crew) -> None:
    first, second = crew.do(training, "cuda")
    host, _ = crew.do(training, "cpu")
    for ours, peers, hosts in zip(first, second, host, strict=True):
        assert torch.equal(ours, peers), "the bits are those of all ranks"
        torch.testing.assert_close(ours, hosts, rtol=1e-4, atol=1e-5)


def tensor_parallel(rank: int, world: int, port: str) -> Any:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    device = take_device(rank)
    with grouped(rank, world, port):
        mesh = init_device_mesh("cuda", (world,))
        torch.manual_seed(3)
        network = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 16)).to(device)
        inputs = torch.randn(8, 16, generator=torch.Generator().manual_seed(1)).to(device)
        whole = network(inputs).detach()
        # Every rank has all weights: none is sent.
        plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
        output = parallelize_module(network, mesh, plan, src_data_rank=None)(inputs)
        output.sum().backward()
        torch.testing.assert_close(output.detach() + 0, whole, rtol=1e-4, atol=1e-5)
        assert no_nccl()["allreduce"]["lanesum"] >= 1
        return (output.detach() + 0).cpu()


def test_tensor_parallel_step(crew: Crew) -> None:
    first, second = crew.do(tensor_parallel)
    assert torch.equal(first, second)


def with_nccl(rank: int, world: int, port: str) -> dict[str, Any]:
    device = take_device(rank)
    alone = torch.cuda.device_count() < world
    members, number = (1, 0) if alone else (world, rank)
    with grouped(number, members, str(int(port) + rank) if alone else port):
        for turn in range(2):
            tensor = torch.full((9,), number + 1.0, dtype=torch.float64, device=device)
            dist.all_reduce(tensor)
            assert bool((tensor == members * (members + 1) / 2).all())
            counters = torch.full((9,), number + 1, device=device)
            dist.all_reduce(counters, async_op=True).wait()
            dist.broadcast(counters, 0)
            ours = filled(number)
            dist.all_reduce(ours)
            assert bool((ours == members * (members + 1) / 2).all())
            if turn == 0:
                dist.barrier()
        out = torch.zeros(members * 3, device=device)
        dist.all_gather_into_tensor(out, torch.ones(3, device=device))
        assert bool((out == 1).all())
        torch.cuda.synchronize()
        return lanesum.torch.counters()


def test_the_rest_is_nccls(crew: Crew) -> None:
    """Each rank a world of its own where they share a GPU."""
    for counted in crew.do(with_nccl):
        assert counted["allreduce"] == {"lanesum": 2, "nccl": 4} and counted["broadcast"] == {"nccl": 2}


def fastest(rank: int, world: int, port: str) -> tuple[int | None, dict[str, Any]]:
    take_device(rank)
    os.environ["LANESUM_POLICY"] = "fastest"
    try:
        with grouped(rank, world, port):
            for size in (64, 4 << 20):
                dist.all_reduce(filled(rank, size))
            torch.cuda.synchronize()
            border = lanesum.torch.communicators()["cuda"].delegate_from("bfloat16", "sum")
            return border, lanesum.torch.counters()
    finally:
        os.environ.pop("LANESUM_POLICY")


def test_the_fastest_runs_if_asked(crew: Crew) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("NCCL needs a GPU for each rank")
    for border, counted in crew.do(fastest):
        handed = 0 if border is None else sum(size * 2 >= border for size in (64, 4 << 20))
        assert counted["allreduce"].get("nccl", 0) == handed and counted["allreduce"].get("lanesum", 0) == 2 - handed


def others(rank: int, world: int, port: str) -> Any:
    device = take_device(rank)
    with grouped(rank, world, port):
        own = torch.arange(3, device=device) + 10 * rank
        every = [torch.arange(3, device=device) + 10 * peer for peer in range(world)]
        gathered = [torch.empty_like(own) for _ in range(world)]
        dist.all_gather(gathered, own)
        assert all(map(torch.equal, gathered, every))
        # In place: the input lies in the output, and the output in the input.
        whole = torch.zeros(3 * world, dtype=torch.int64, device=device)
        whole[3 * rank : 3 * rank + 3] = own
        dist.all_gather_into_tensor(whole, whole[3 * rank : 3 * rank + 3])
        assert torch.equal(whole, torch.cat(every))
        parts = torch.arange(2 * world, device=device) * (rank + 1)
        dist.reduce_scatter_tensor(parts[2 * rank : 2 * rank + 2], parts)
        assert parts[2 * rank : 2 * rank + 2].tolist() == [3 * (2 * rank), 3 * (2 * rank + 1)]
        word = torch.full((2,), rank, device=device)
        dist.broadcast(word, 1)
        assert word.tolist() == [1, 1]
        dist.all_reduce(own)
        assert torch.equal(own, sum(every))
        if rank == 0:
            dist.send(word + 6, 1)
        else:
            dist.recv(word, 0)
            assert word.tolist() == [7, 7]
        return lanesum.torch.counters()


def test_the_rest_is_gloos_where_ranks_share_a_gpu(crew: Crew) -> None:
    if torch.cuda.device_count() > 1:
        pytest.skip("every rank has a GPU of its own")
    for counted in crew.do(others):
        assert counted["allreduce"] == {"gloo": 1} and counted["broadcast"] == {"gloo": 1}
        assert all(by.keys() == {"gloo"} for by in counted.values())


def language_model(rank: int, world: int, port: str, switch: str, folder: str, dtype: str) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM

    device = take_device(rank)
    # As torchrun sets them; the local rank is the number of a GPU to transformers.
    settings = {"RANK": str(rank), "LOCAL_RANK": str(device.index), "WORLD_SIZE": str(world), "HF_HUB_OFFLINE": "1"}
    settings["LANESUM"] = switch
    os.environ.update(settings)
    try:
        with grouped(rank, world, port):
            network = AutoModelForCausalLM.from_pretrained(folder, tp_plan="auto", dtype=getattr(torch, dtype))
            prompt = torch.arange(2, 12, device=device).unsqueeze(0)
            tokens = network.generate(prompt, max_new_tokens=24, do_sample=False)
            assert tokens.is_cuda
            return tokens[0].tolist(), lanesum.torch.counters()["allreduce"]
    finally:
        for name in settings:
            os.environ.pop(name)


@pytest.mark.parametrize(("world", "dtype"), [(2, "float32"), (2, "bfloat16"), (4, "float32")])
def test_a_language_model_says_the_same(tmp_path: Path, world: int, dtype: str) -> None:
    pytest.importorskip("accelerate", reason="transformers needs it for tp_plan")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=512,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,
        max_position_embeddings=128,
        # With transformers' own range a model says one word again and again.
        initializer_range=0.1,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path)
    with Crew(world) as members:
        ours = members.do(language_model, "1", str(tmp_path), dtype)
        # Gloo's sums, or NCCL's where ranks have GPUs of their own.
        others = members.do(language_model, "0", str(tmp_path), dtype)
    assert all(tokens == others[0][0] for tokens, _ in ours + others) and len(set(others[0][0])) > 20
    # Two sums a layer at least, for each token.
    assert all(counted.keys() == {"lanesum"} and counted["lanesum"] >= 24 * 8 for _, counted in ours)
    assert all("lanesum" not in counted for _, counted in others)


def killed(rank: int, world: int, name: str, port: str) -> Any:
    take_device(rank)
    address = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("lanesum", init_method=address, rank=rank, world_size=world, timeout=timedelta(seconds=20))
    tensor = filled(rank)
    dist.all_reduce(tensor)
    torch.cuda.synchronize()
    dist.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    started = time.monotonic()
    with pytest.raises(lanesum.FaultError) as told:
        while time.monotonic() < started + 20:
            dist.all_reduce(tensor)
            torch.cuda.synchronize()
    assert time.monotonic() - started < 10
    with pytest.raises(lanesum.PoisonedError):
        dist.all_reduce(tensor)
    assert bool(tensor.isnan().all())
    dist.destroy_process_group()
    return told.value


def test_a_rank_that_is_killed_is_named() -> None:
    outcomes = ranks.run(2, killed, str(free_port()))
    (error,) = ranks.succeeded(outcomes[:1])
    assert error.ranks == (1,)
