"""Folders in which a file's absolute imports are looked for, when its project is installed or run."""

from __future__ import annotations

import sys
from pathlib import Path

_MARKS = ("pyproject.toml", "setup.py", "setup.cfg", ".git")
_LEVELS = 8  # of folders that are looked through, upwards


def project_roots(folder: Path) -> tuple[Path, ...]:
    """The folder that holds the package of `folder`, and the project's own folder and its `src`.

    Not kept: a process that an editor asks lives longer than what it has seen on disk.
    """
    found: list[Path] = []
    package = folder
    for _ in range(_LEVELS):
        if not is_file(package / "__init__.py"):
            break
        package = package.parent
    if package != folder:
        found.append(package)
    for parent in (folder, *folder.parents)[:_LEVELS]:
        if any(exists(parent / mark) for mark in _MARKS):
            found += [parent, parent / "src"]
            break
    return tuple(dict.fromkeys(f for f in found if f != folder))


def is_file(path: Path) -> bool:
    """Whether there is such a file that can be seen. `Path.is_file` raises where a folder may not be entered,
    and for names that are too long.
    """
    try:
        return path.is_file()
    except OSError:
        return False


def exists(path: Path) -> bool:
    """The same for a file or a folder."""
    try:
        return path.exists()
    except OSError:
        return False


def is_standard(name: str) -> bool:
    """Whether Python itself has the module: files of a project do not stand before it."""
    return name.partition(".")[0] in sys.stdlib_module_names
