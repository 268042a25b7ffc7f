"""Rules about what one target or one release has and another has not."""

from __future__ import annotations

from tilelang.diagnostics.problem import Severity
from tilelang.diagnostics.rule import Rule

MISSING_ON_TARGET = Rule(
    "missing-on-target",
    "compat",
    Severity.ERROR,
    "A part of the language that the target has no hardware for.",
    "T.{name} is not there on {target}: it needs {needs}",
)
DEPRECATED_NAME = Rule(
    "deprecated-name",
    "compat",
    Severity.WARNING,
    "A name or an argument that upstream's releases deprecate or have renamed.",
    "{what}; {instead}",
)
REMOVED_NAME = Rule(
    "removed-name",
    "compat",
    Severity.ERROR,
    "A name that upstream's releases do not have any more, and that no other name stands for.",
    "`{name}` {why}: {instead}",
)
REMOVED_ARGUMENT = Rule(
    "removed-argument",
    "compat",
    Severity.ERROR,
    "An argument that upstream's releases do not take any more.",
    "T.{callee} has no argument `{name}` any more: {why}; remove it",
)
