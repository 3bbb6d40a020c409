"""The `lanesum` executable, which the wheel contains.

It is a real file, as it starts itself again for each rank.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn


def program() -> Path:
    """Where the executable is."""
    return Path(__file__).resolve().with_name("_bin") / "lanesum"


def main() -> NoReturn:
    """Becomes the executable, with the same arguments."""
    path = program()
    try:
        os.execv(path, ["lanesum", *sys.argv[1:]])
    except OSError as error:
        print(f"error: cannot run {path}: {error.strerror}", file=sys.stderr)
        print("hint: install the package from its wheel; an import from the sources has no executable", file=sys.stderr)
        sys.exit(126)
