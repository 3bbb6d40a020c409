"""What tests share."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from crew import Crew

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def driver() -> Path:
    """The folder of the stand-in for the CUDA driver (crates/lanesum-standin): the kernels on the CPU."""
    if shutil.which("cargo") is None:
        pytest.skip("no cargo to build the stand-in driver with")
    words = ["cargo", "build", "--quiet", "--package", "lanesum-standin", "--message-format", "json"]
    built = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    for line in built.stdout.splitlines():
        message = json.loads(line)
        if message["reason"] == "build-script-executed" and "lanesum-standin" in message["package_id"]:
            return Path(message["out_dir"]) / "driver"
    pytest.fail("cargo does not say where the stand-in driver is")


@pytest.fixture
def gpus(driver: Path, tmp_path: Path) -> dict[str, str]:
    """The environment of ranks that have the stand-in's eight GPUs."""
    config = tmp_path / "standin.conf"
    config.write_text("")
    return {"LD_LIBRARY_PATH": str(driver), "LANESUM_STANDIN": str(config)}


@pytest.fixture(scope="session")
def crew() -> Iterator[Crew]:
    """Two rank processes that stay, as torch takes its time to be imported."""
    with Crew(2) as members:
        yield members
