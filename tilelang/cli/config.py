"""`[tool.tilelang]` in pyproject.toml: target, select and ignore for `tilelang check`."""

from __future__ import annotations

import difflib
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tilelang.arch.target import Target, parse_target
from tilelang.cli.usage import UsageError
from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.registry import RULES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEFAULT_TARGET = Target("cuda", "sm_90")


@dataclass(frozen=True)
class CheckConfig:
    """What to check for, and which rules count. `select` and `ignore` hold names of rules or of families."""

    target: Target = DEFAULT_TARGET
    select: frozenset[str] | None = None  # None: all
    ignore: frozenset[str] = frozenset()

    def wants(self, problem: Problem) -> bool:
        """Whether a problem is to be reported. Files that cannot be parsed or read always are."""
        rule = RULES.get(problem.rule)
        names = {problem.rule} if rule is None else {rule.name, rule.family}
        if problem.rule in ("syntax-error", "unreadable-file"):
            return True
        return (self.select is None or bool(names & self.select)) and not names & self.ignore


def config_for(file: Path) -> CheckConfig:
    """The configuration of the nearest pyproject.toml with a [tool.tilelang] at or above `file`, else the
    defaults.

    Raises UsageError that names the key and what may stand there.
    """
    return _config_of_folder(file.resolve().parent)


@cache
def _config_of_folder(folder: Path) -> CheckConfig:
    project = folder / "pyproject.toml"
    if project.is_file():
        table = _read(project)
        if table is not None:
            return _parse(project, table)
    return CheckConfig() if folder.parent == folder else _config_of_folder(folder.parent)


def _read(project: Path) -> dict[str, Any] | None:
    try:
        data = tomllib.loads(project.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{project} cannot be read: {error}") from None
    table = data.get("tool", {}).get("tilelang")
    if table is not None and not isinstance(table, dict):
        raise UsageError(f"{project}: tool.tilelang must be a table")
    return table


def _parse(project: Path, table: dict[str, Any]) -> CheckConfig:
    unknown = set(table) - {"target", "select", "ignore"}
    if unknown:
        raise UsageError(
            f"{project}: [tool.tilelang] has no key {min(unknown)!r}; it takes target, select and ignore"
        )
    try:
        target = parse_target(table["target"]) if "target" in table else DEFAULT_TARGET
    except ValueError as error:
        raise UsageError(f"{project}: {error}") from None
    select = _rule_names(project, "select", table["select"]) if "select" in table else None
    return CheckConfig(target, select, _rule_names(project, "ignore", table.get("ignore", [])))


def _rule_names(project: Path, key: str, value: Any) -> frozenset[str]:
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise UsageError(f"{project}: {key} must be a list of rule names")
    known = {*RULES, *(r.family for r in RULES.values())}
    for name in value:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise UsageError(
                f"{project}: {key} names {name!r}, which is no rule and no family of rules{hint}"
            )
    return frozenset(value)
