"""Compares the sources of an engine with what lanesum's plug-in needs of it; nothing of the engine is imported.

`python engines_check.py vllm PLACE` prints the version and a line for each difference, or that there is none. PLACE is a folder with
one wheel, or with what was in it. `python engines_check.py vllm` prints the version that the tests run with. `cargo xtask
engines` calls both; the list of needs is lanesum/engines/_names.py.
"""

from __future__ import annotations

import ast
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from lanesum.engines import _names

NEEDS = {"vllm": _names.VLLM, "sglang": _names.SGLANG}

Function = (ast.FunctionDef, ast.AsyncFunctionDef)


def differences(needs: _names.Needs, sources: Path) -> Iterator[str]:
    """What a version of the engine has otherwise than the plug-in needs it."""
    for name in needs.names:
        found = present(name, sources)
        if found != name.signature:
            yield _names.different(needs, name, found)
    for attribute, places in asked(needs, sources).items():
        if attribute not in needs.attributes:
            yield f"{needs.title} asks {needs.holder}.{attribute}, which lanesum's object need not have ({', '.join(sorted(places))})"


def present(name: _names.Name, sources: Path) -> str | None:
    """The signature that the sources have; None if the name is not there."""
    file = sources / (name.module.replace(".", "/") + ".py")
    if not file.is_file():
        return None
    body = ast.parse(file.read_text(encoding="utf-8")).body
    *classes, function = name.path.split(".")
    for each in classes:
        body = next((node.body for node in body if isinstance(node, ast.ClassDef) and node.name == each), [])
    found = next((node for node in body if isinstance(node, Function) and node.name == function), None)
    return None if found is None else written(found.args)


def written(arguments: ast.arguments) -> str:
    """A signature in the words of the list."""
    positional = [*arguments.posonlyargs, *arguments.args]
    first_default = len(positional) - len(arguments.defaults)
    words = [each.arg + ("=" if at >= first_default else "") for at, each in enumerate(positional)]
    if arguments.posonlyargs:
        words.insert(len(arguments.posonlyargs), "/")
    if arguments.vararg:
        words.append(f"*{arguments.vararg.arg}")
    elif arguments.kwonlyargs:
        words.append("*")
    for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        words.append(each.arg + ("" if default is None else "="))
    if arguments.kwarg:
        words.append(f"**{arguments.kwarg.arg}")
    return ", ".join(words)


def asked(needs: _names.Needs, sources: Path) -> dict[str, set[str]]:
    """The attributes of the custom all-reduce that the sources use, with the files, unless they look first whether they are there."""
    root = sources / needs.distribution
    found: dict[str, set[str]] = {}
    for file in root.rglob("*.py"):
        text = file.read_text(encoding="utf-8", errors="replace")
        place = file.relative_to(root).as_posix()
        if needs.holder not in text or any(part in place for part in needs.elsewhere):
            continue
        nodes = list(ast.walk(ast.parse(text)))
        looked_for = {attribute for node in nodes if (attribute := looked(node, needs.holder))}
        for node in nodes:
            if isinstance(node, ast.Attribute) and ast.unparse(node.value).split(".")[-1] == needs.holder:
                if node.attr not in looked_for:
                    found.setdefault(node.attr, set()).add(place)
    return found


def looked(node: ast.AST, holder: str) -> str | None:
    """The attribute that `hasattr(holder, ...)` or `getattr(holder, ..., default)` names."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) >= 2:
        asks = node.func.id == "hasattr" or (node.func.id == "getattr" and len(node.args) == 3)
        name = node.args[1]
        if asks and ast.unparse(node.args[0]).split(".")[-1] == holder and isinstance(name, ast.Constant):
            return str(name.value)
    return None


@contextmanager
def unpacked(place: Path) -> Iterator[tuple[Path, str]]:
    """The folder of the sources, and the version, as the wheel's name tells it."""
    wheels = list(place.glob("*.whl"))
    if not wheels:
        yield place, "version unknown"
        return
    if len(wheels) > 1:
        raise ValueError(f"{place} holds {len(wheels)} wheels")
    with TemporaryDirectory() as folder, zipfile.ZipFile(wheels[0]) as wheel:
        wheel.extractall(folder, [name for name in wheel.namelist() if name.endswith(".py")])
        yield Path(folder), wheels[0].name.split("-")[1]


def main() -> int:
    needs = NEEDS[sys.argv[1]]
    if len(sys.argv) == 2:
        print(needs.tried)
        return 0
    with unpacked(Path(sys.argv[2])) as (sources, version):
        if not (sources / needs.distribution).is_dir():
            print(f"error: {sys.argv[2]} holds no {needs.distribution}; hint: give the folder of a wheel", file=sys.stderr)
            return 2
        found = list(differences(needs, sources))
    print(version)
    if not found and not _names.known(needs, version):
        found = ["nothing differs, but the version is not in the list: lanesum stays out until it is"]
    print("\n".join(found) or f"all {len(needs.names)} names and {len(needs.attributes)} attributes are as needed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
