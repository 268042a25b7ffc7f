"""What a project says in `[tool.tilelang]` of its pyproject.toml, for the command line and the editor alike.

[tool.tilelang]
target = "cuda:sm_80"
select = ["shape", "gemm-scope"]
ignore = ["never-read"]

[tool.tilelang.specialisations.gemm]
block_M = 128
dtype = "float16"
"""

from __future__ import annotations

import ast
import os
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilelang.arch.target import Target, parse_target
from tilelang.diagnostics.selection import RuleSelection, rule_names
from tilelang.parsing import parse

DEFAULT_TARGET = Target("cuda", "sm_90")
_KEYS = ("target", "select", "ignore", "specialisations")

Specialisations = Mapping[str, Mapping[str, str]]  # kernel -> parameter or size -> Python source text


class ProjectError(ValueError):
    """A pyproject.toml cannot be used; the text names the file, the key, and what may stand there."""


@dataclass(frozen=True)
class Project:
    """The settings of one project. `target` None: it names none, the default counts."""

    target: Target | None = None
    rules: RuleSelection = field(default_factory=RuleSelection)
    specialisations: Specialisations = field(default_factory=dict)

    def choice(self, *names: str) -> dict[str, str]:
        """The values chosen for a kernel that goes by one of `names`, the first that is listed."""
        found = next((self.specialisations[n] for n in names if n in self.specialisations), {})
        return dict(found)


class Projects:
    """Finds the settings of files; each pyproject.toml is read once and again when it has changed."""

    def __init__(self) -> None:
        self._read: dict[Path, tuple[tuple[int, int], Project | ProjectError | None]] = {}

    def of(self, file: Path) -> Project:
        """The settings of the nearest pyproject.toml with a [tool.tilelang] at or above `file`, else none.

        Raises ProjectError.
        """
        try:
            folders = Path(os.path.realpath(file)).parents
        except (OSError, ValueError):  # no name that a file can have
            return Project()
        for folder in folders:
            found = self._at(folder / "pyproject.toml")
            if found is not None:
                return found
        return Project()

    def _at(self, path: Path) -> Project | None:
        try:
            status = path.stat()
        except OSError:
            return None
        if not stat.S_ISREG(status.st_mode):  # reading a pipe or a device may never end
            return None
        stamp = (status.st_mtime_ns, status.st_size)
        known = self._read.get(path)
        if known is None or known[0] != stamp:
            known = (stamp, _outcome(path))
            self._read[path] = known
        if isinstance(known[1], ProjectError):
            raise known[1]
        return known[1]


def as_source(value: Any) -> str:
    """A value as Python source: a text that is an expression itself, quoted where it is a bare word such as
    float16. Raises ValueError for what no kernel parameter can be.
    """
    if isinstance(value, bool | int | float):
        return repr(value)
    if not isinstance(value, str):
        raise ValueError(f"expected a number, true, false or a text, not {value!r}")
    try:
        parsed: Any = parse(value, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return repr(value)
    return repr(value) if isinstance(parsed, ast.Name) else value


def read_specialisations(value: Any) -> dict[str, dict[str, str]]:
    """From `{"kernel": {"block_M": 128, "dtype": "float16"}}`. Raises ValueError."""
    if not isinstance(value, Mapping) or not all(isinstance(v, Mapping) for v in value.values()):
        raise ValueError(f'expected values by kernel, as in {{"gemm": {{"block_M": 128}}}}, not {value!r}')
    return {str(k): {str(n): as_source(v) for n, v in chosen.items()} for k, chosen in value.items()}


def _outcome(path: Path) -> Project | ProjectError | None:
    try:
        table = _table(path)
        return None if table is None else _parse(path, table)
    except ProjectError as error:
        return error


def _table(path: Path) -> dict[str, Any] | None:
    if sys.version_info >= (3, 11):  # late: an editor's server imports this module and may need no TOML
        import tomllib
    else:
        import tomli as tomllib
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, RecursionError, tomllib.TOMLDecodeError) as error:
        raise ProjectError(f"{path} cannot be read: {error}") from None
    tools = data.get("tool", {})
    table = tools.get("tilelang") if isinstance(tools, dict) else None
    if table is not None and not isinstance(table, dict):
        raise ProjectError(f"{path}: tool.tilelang must be a table")
    return table


def _parse(path: Path, table: dict[str, Any]) -> Project:
    unknown = set(table) - set(_KEYS)
    if unknown:
        known = f"{', '.join(_KEYS[:-1])} and {_KEYS[-1]}"
        raise ProjectError(f"{path}: [tool.tilelang] has no key {min(unknown)!r}; it takes {known}")
    try:
        return Project(
            parse_target(table["target"]) if "target" in table else None,
            RuleSelection(
                _rules(path, "select", table["select"]) if "select" in table else None,
                _rules(path, "ignore", table.get("ignore", [])),
            ),
            read_specialisations(table.get("specialisations", {})),
        )
    except ProjectError:
        raise
    except ValueError as error:
        raise ProjectError(f"{path}: {error}") from None


def _rules(path: Path, key: str, value: Any) -> frozenset[str]:
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise ProjectError(f"{path}: {key} must be a list of rule names")
    try:
        return rule_names(value)
    except ValueError as error:
        raise ProjectError(f"{path}: {key}: {error}") from None
