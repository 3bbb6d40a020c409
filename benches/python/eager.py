"""What an eager all-reduce of a torch tensor takes from Python, ranks as processes on one GPU under CUDA MPS.

    python benches/python/eager.py --ranks 2,4,8 --record FILE.json

Each rank makes 500 calls back to back and then waits for its GPU; of 15 such rounds the median counts, and of the ranks the slowest.
Answers are checked before they are timed. MPS is started by whoever calls this.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import sys
import time
from pathlib import Path
from typing import Any

CALLS, ROUNDS = 500, 15
SIZES = (14_336, 43_008)


def rank_of(rank: int, world: int, answers: Any) -> None:
    import lanesum
    import torch

    torch.cuda.set_device(rank % torch.cuda.device_count())
    found: dict[int, dict[str, float]] = {}
    with lanesum.Communicator(rank, world, f"eager-{world}", device=torch.cuda.current_device(), deadline=60) as ranks:
        for size in SIZES:
            tensor = torch.full((size // 2,), float(rank + 1), dtype=torch.bfloat16, device="cuda")
            issued = ranks.all_reduce(tensor)
            issued.wait()
            assert bool((tensor == world * (world + 1) // 2).all())
            # The largest of equals: the same work, and numbers that stay.
            enqueued, whole = [], []
            for round_ in range(ROUNDS + 1):
                ranks.barrier()
                torch.cuda.synchronize()
                start = time.perf_counter()
                for _ in range(CALLS):
                    ranks.all_reduce(tensor, op="max")
                middle = time.perf_counter()
                torch.cuda.synchronize()
                end = time.perf_counter()
                if round_ > 0:
                    enqueued.append((middle - start) / CALLS * 1e6)
                    whole.append((end - start) / CALLS * 1e6)
            found[size] = {"enqueued_us": statistics.median(enqueued), "whole_us": statistics.median(whole)}
        ranks.check()
    answers.put((rank, issued.algorithm, found))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", default="2,4,8")
    parser.add_argument("--record", type=Path)
    parser.add_argument("--commit")
    arguments = parser.parse_args()
    import torch

    multiprocessing.set_start_method("spawn")
    rows = []
    for world in map(int, arguments.ranks.split(",")):
        answers: Any = multiprocessing.Queue()
        processes = [multiprocessing.Process(target=rank_of, args=(rank, world, answers)) for rank in range(world)]
        for process in processes:
            process.start()
        told = [answers.get(timeout=180) for _ in processes]
        for process in processes:
            process.join()
        for size in SIZES:
            slowest = {key: round(max(found[size][key] for _, _, found in told), 2) for key in ("enqueued_us", "whole_us")}
            rows.append({"ranks": world, "bytes": size, "dtype": "bf16", **slowest})
            print(rows[-1], flush=True)
    if arguments.record:
        document = {
            "command": "python " + " ".join(sys.argv[:1] + [word for word in sys.argv[1:] if not word.endswith(".json")]),
            "commit": arguments.commit,
            "machine": {
                "gpu": torch.cuda.get_device_name(),
                "gpus": torch.cuda.device_count(),
                "python": sys.version.split()[0],
                "torch": torch.__version__,
                "mps": True,
            },
            "what": "eager all_reduce of a torch tensor from Python; us a call, median of rounds, the slowest rank",
            "calls": CALLS,
            "rounds": ROUNDS,
            "rows": rows,
        }
        arguments.record.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
