"""The disk cache of compiled kernels: a folder of artifacts, named by a hash of everything that decides their
content.

The key is made from the canonical text of the tile function, the lines its statements stand on relative to
the kernel's first one, target, options, and the versions of compiler and toolchain. Concurrent writers are
safe: a folder appears by an atomic rename, and two writers of one key write the same.

TILELANG_CACHE_DIR names another folder, TILELANG_DISABLE_CACHE=1 turns the cache off.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import tvm_ffi
from tvm import ir
from tvm import tirx as X

from tilelang.arch.target import Target
from tilelang.jit.options import CompileOptions
from tilelang.runtime.artifact import Artifact
from tilelang.version import PACKAGE_VERSION

_log = logging.getLogger(__name__)


# The kernels of this process that somebody still holds, by key, backend and place: equal ones are one object.
_LOADED: WeakValueDictionary[Any, Any] = WeakValueDictionary()

# Artifacts whose source a function of the author's has edited, by key: no other process has that function.
_EDITED: dict[str, Artifact] = {}


def loaded(place: Any) -> Any:
    """The kernel that this process has of a tile function; None if it has none, or `place` is None."""
    return None if place is None else _LOADED.get(place)


def keep_loaded(place: Any, kernel: Any) -> None:
    """Remember a kernel for as long as somebody holds it; nothing where `place` is None."""
    if place is not None:
        _LOADED[place] = kernel


def loaded_kernels() -> WeakValueDictionary[Any, Any]:
    """The kernels of this process that somebody holds."""
    return _LOADED


def forget_loaded() -> None:
    """Kernels of this process are made anew; those that somebody holds stay usable."""
    _LOADED.clear()
    _EDITED.clear()


def cache_dir() -> Path:
    """The folder that holds the cache."""
    named = os.environ.get("TILELANG_CACHE_DIR")
    return Path(named) if named else Path.home() / ".tilelang" / "cache"


def cache_key(
    func: X.PrimFunc, options: CompileOptions, toolchain: str, edits: str | None = None
) -> str | None:
    """The name of the artifact of `func`; None if its text does not tell everything about it.

    edits: a name for the function of the author's that edits the source, if there is one.
    """
    assert options.target is not None
    text = canonical_text(func)
    if text is None:
        return None
    parts = {
        "text": text,
        "target": options.target.name,
        "pass_configs": sorted((k, repr(v)) for k, v in options.pass_configs.items()),
        "flags": list(options.compile_flags),
        "toolchain": toolchain,
        "edits": edits,
        "version": PACKAGE_VERSION,
        "compiler": _compiler_stamp(),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def canonical_text(func: X.PrimFunc) -> str | None:
    """The tile function as text, with the lines of its statements; equal texts compile to equal artifacts."""
    text = func.script()
    strings: list[str] = []
    if "metadata[" in text:  # what the printer leaves out; strings can be added, anything else cannot
        if set(_metadata_kinds(text)) != {"ir.StringImm"}:
            return None
        tvm_ffi.structural_walk(func, (ir.StringImm, lambda s: strings.append(str(s.value))))
    first = first_line(func)
    lines: list[int] = []

    def note(stmt: Any) -> None:
        lines.append(stmt.span.line - first if stmt.span is not None else -1)

    tvm_ffi.structural_walk(func, (X.Stmt, note))
    return json.dumps([text, strings, lines])


def first_line(func: X.PrimFunc) -> int:
    """The line that the kernel starts on; artifacts keep their line maps relative to it."""
    return int(func.span.line) if func.span is not None else 1


def find(key: str, line: int) -> Artifact | None:
    """The artifact of `key` for a kernel that starts on `line`; None if there is none or it is damaged."""
    if key in _EDITED:
        return _moved(_EDITED[key], line - 1)
    folder = cache_dir() / key
    if not (folder / "meta.json").is_file():
        return None
    try:
        return _moved(Artifact.load(folder), line - 1)
    except (OSError, ValueError) as error:
        _log.warning("ignoring a cached kernel: %s", error)
        return None


def keep(key: str, artifact: Artifact, line: int, on_disk: bool = True) -> None:
    """Add an artifact. A folder that cannot be written is a warning: the kernel works without.

    on_disk: False for one that only this process can find again.
    """
    if not on_disk:
        _EDITED[key] = _moved(artifact, 1 - line)
        return
    folder = cache_dir() / key
    if folder.exists():
        return
    try:
        _moved(artifact, 1 - line).save(folder)
    except OSError as error:
        _log.warning("the compiled kernel could not be cached: %s", error)


def _moved(artifact: Artifact, lines: int) -> Artifact:
    """The artifact of a kernel that stands `lines` lower; 0 in a line map means no line, and stays."""
    moved = tuple(n + lines if n else 0 for n in artifact.line_map)
    return dataclasses.replace(artifact, line_map=moved)


def _metadata_kinds(text: str) -> Sequence[str]:
    return [part.partition('"')[0] for part in text.split('metadata["')[1:]]


@functools.cache
def toolchain_name(target: Target) -> str:
    """What turns source into a binary for `target` here, with its version."""
    if target.kind == "cuda":
        from tilelang.targets.cuda.toolchain import describe

        return describe()
    if target.kind == "cpu":
        from tilelang.targets.cpu.toolchain import describe

        return describe(target.arch)
    return "source only"


@functools.cache
def _compiler_stamp() -> str:
    """Changes when any file of the compiler does: kernels compiled before an update are not found."""
    import tvm

    root = Path(__file__).parents[1]
    stamp = hashlib.sha256(str(tvm.__version__).encode())
    for file in sorted(root.rglob("*.py")):
        state = file.stat()
        stamp.update(f"{file.relative_to(root)} {state.st_size} {state.st_mtime_ns}\n".encode())
    return stamp.hexdigest()
