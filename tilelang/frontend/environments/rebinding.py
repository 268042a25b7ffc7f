"""Names of a module that its top level binds or changes several times: which value they have at a line."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tilelang.frontend.environments.kernel_key import touched_names
from tilelang.frontend.model import NO_VALUE, Instance
from tilelang.frontend.source import Source

_DEPTH = 8  # of containers in containers that are looked through


@dataclass
class Rebindings:
    """For each such name the values it takes in turn, each with the last line of the statement that gives
    it. What stands between two of them sees the first.
    """

    versions: dict[str, list[tuple[int, Any]]] = field(default_factory=dict)

    @staticmethod
    def of(source: Source, body: Iterable[ast.stmt]) -> Rebindings:
        """Of a module's top level, with no values yet."""
        counts: dict[str, int] = {}
        for statement in body:
            for name in touched_names(source, statement):
                counts[name] = counts.get(name, 0) + 1
        return Rebindings({name: [] for name, count in counts.items() if count > 1})

    def note(self, source: Source, statement: ast.stmt, names: Mapping[str, Any]) -> None:
        """Keep what `statement` leaves in `names`."""
        if not self.versions:
            return
        for name in touched_names(source, statement) & self.versions.keys():
            if name in names:
                self.versions[name].append((statement.end_lineno or statement.lineno, _as_it_is(names[name])))

    def at(self, line: int) -> dict[str, Any]:
        """The values at `line` of names that have another one at the end of the module."""
        found = {}
        for name, versions in self.versions.items():
            value = next((v for end, v in reversed(versions) if end < line), NO_VALUE)
            if value is not NO_VALUE and not _same(value, versions[-1][1]):
                found[name] = value
        return found

    def changed_after(self, line: int) -> set[str]:
        """Names that have several values from `line` on."""
        found = set()
        for name, versions in self.versions.items():
            before = [v for end, v in versions if end < line][-1:]
            later = [*before, *(v for end, v in versions if end >= line)]
            if any(not _same(later[0], v) for v in later[1:]):
                found.add(name)
        return found


def _as_it_is(value: Any, depth: int = 0) -> Any:
    """A container or an object as it is now: what follows may change it."""
    if depth > _DEPTH:
        return value
    if type(value) is list:
        return [_as_it_is(v, depth + 1) for v in value]
    if type(value) is dict:
        return {k: _as_it_is(v, depth + 1) for k, v in value.items()}
    if type(value) is set:
        return set(value)
    return Instance(value.cls, dict(value.attributes)) if isinstance(value, Instance) else value


def _same(one: Any, other: Any, depth: int = 0) -> bool:
    """Whether two values are known to be one. Objects are compared by what they hold."""
    if one is other:
        return True
    if type(one) is not type(other) or depth > _DEPTH:
        return False
    if isinstance(one, Instance):
        return one.cls is other.cls and _same(one.attributes, other.attributes, depth + 1)
    if isinstance(one, list | tuple):
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(_same(a, b, depth + 1) for a, b in pairs)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(v, other[k], depth + 1) for k, v in one.items())
    return isinstance(one, bool | int | float | str) and bool(one == other)
