"""Folders in which a file's absolute imports are looked for, when its project is installed or run."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

_MARKS = ("pyproject.toml", "setup.py", "setup.cfg", ".git")
_LEVELS = 8  # of folders that are looked through, upwards


@functools.lru_cache(maxsize=256)
def project_roots(folder: Path) -> tuple[Path, ...]:
    """The folder that holds the package of `folder`, and the project's own folder and its `src`."""
    found: list[Path] = []
    package = folder
    for _ in range(_LEVELS):
        if not (package / "__init__.py").is_file():
            break
        package = package.parent
    if package != folder:
        found.append(package)
    for parent in (folder, *folder.parents)[:_LEVELS]:
        if any((parent / mark).exists() for mark in _MARKS):
            found += [parent, parent / "src"]
            break
    return tuple(dict.fromkeys(f for f in found if f != folder))


def is_standard(name: str) -> bool:
    """Whether Python itself has the module: files of a project do not stand before it."""
    return name.partition(".")[0] in sys.stdlib_module_names
