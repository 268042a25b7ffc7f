"""Rules about whole files and about the comments that steer the checks."""

from __future__ import annotations

from tilelang.diagnostics.problem import Severity
from tilelang.diagnostics.rule import Rule

UNREADABLE_FILE = Rule(
    "unreadable-file",
    "python",
    Severity.ERROR,
    "A file must be readable as Python source text.",
    "{what}",
)

UNUSED_IGNORE = Rule(
    "unused-ignore",
    "python",
    Severity.WARNING,
    "A comment that ignores a rule should silence something.",
    "nothing to silence: this line has no problem of the rule {rule}",
)
UNUSED_BARE_IGNORE = Rule(
    "unused-ignore",
    "python",
    Severity.WARNING,
    "A comment that ignores a rule should silence something.",
    "nothing to silence: this line has no problem",
)
UNKNOWN_IGNORED_RULE = Rule(
    "unused-ignore",
    "python",
    Severity.WARNING,
    "A comment that ignores a rule should silence something.",
    "there is no rule called {rule}{hint}",
)
