"""Builds the wheel: maturin makes the extension module, this adds the `lanesum` executable (PEP 517).

maturin packs a library or a program and not both, and the executable has to be a real file in the wheel, as it starts itself again for
each rank. So it is built first, by cargo, and is one of the package's files then.

`pip install . -C profile=dev` builds both with another of cargo's profiles than `release`. `-C target=TRIPLE.GLIBC` builds both with
zig for that system, as `x86_64-unknown-linux-gnu.2.17`: so are the wheels for other machines made (`cargo xtask python --wheel`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import maturin

ROOT = Path(__file__).resolve().parents[2]
PACKED = ROOT / "python" / "lanesum" / "_bin" / "lanesum"

get_requires_for_build_wheel = maturin.get_requires_for_build_wheel
prepare_metadata_for_build_wheel = maturin.prepare_metadata_for_build_wheel


def build_wheel(
    wheel_directory: str, config_settings: dict[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """PEP 517's hook."""
    settings = config_settings or {}
    profile, target = settings.get("profile", "release"), settings.get("target")
    _pack_executable(profile, target)
    words = f"--profile={profile}"
    if target:
        triple, _, glibc = target.partition(".2.")
        words += f" --zig --target={triple} --compatibility manylinux_2_{glibc}"
    return maturin.build_wheel(wheel_directory, {"build-args": words}, metadata_directory)


def _pack_executable(profile: str, target: str | None) -> None:
    cargo = os.environ.get("CARGO", "cargo")
    build = "zigbuild" if target else "build"
    words = [cargo, build, "--package", "lanesum-cli", "--bin", "lanesum", "--profile", profile]
    if profile != "dev":
        # Of the executable a quarter is left. Not for `dev`, whose artefacts others share.
        words += ["--config", f"profile.{profile}.strip=true"]
    folder = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    if target:
        words += ["--target", target]
        folder /= target.partition(".2.")[0]
    try:
        subprocess.run(words, cwd=ROOT, check=True)
    except FileNotFoundError:
        sys.exit("error: no cargo to build lanesum with\nhint: install stable Rust with rustup, or take a wheel that is built")
    PACKED.parent.mkdir(exist_ok=True)
    built = folder / ("debug" if profile == "dev" else profile) / "lanesum"
    # A new file, never one that is being run.
    PACKED.unlink(missing_ok=True)
    shutil.copy2(built, PACKED)
