"""All rules by name. A rule that words its message in several ways has one record here, its file's first."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType, ModuleType

from tilelang.diagnostics.rule import Rule
from tilelang.diagnostics.rules import (
    bounds,
    compat,
    dtype,
    files,
    internal,
    layout,
    order,
    performance,
    python,
    resource,
    run,
    scope,
    shape,
)

_FAMILIES = (
    python,
    shape,
    scope,
    dtype,
    bounds,
    order,
    layout,
    resource,
    performance,
    compat,
    files,
    internal,
    run,
)


def _gather(families: tuple[ModuleType, ...]) -> Mapping[str, Rule]:
    found: dict[str, Rule] = {}
    for family in families:
        for value in vars(family).values():
            if isinstance(value, Rule):
                found.setdefault(value.name, value)
    return MappingProxyType(found)


RULES: Mapping[str, Rule] = _gather(_FAMILIES)


def rule(name: str) -> Rule | None:
    """The rule called `name` (`"gemm-shape"`), None if there is none."""
    return RULES.get(name)
