"""Which rules are wanted: `select` and `ignore` of a project, a command line or an editor."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.registry import RULES

# Nothing else can be said of such a file, so silence would look like praise.
_ALWAYS = ("syntax-error", "unreadable-file")


@dataclass(frozen=True)
class RuleSelection:
    """Names of rules and of families of rules. `select` None: all; `ignore` goes over `select`."""

    select: frozenset[str] | None = None
    ignore: frozenset[str] = frozenset()

    def wants(self, problem: Problem) -> bool:
        """Whether a problem is to be reported. Files that cannot be parsed or read always are."""
        if problem.rule in _ALWAYS:
            return True
        rule = RULES.get(problem.rule)
        names = {problem.rule} if rule is None else {rule.name, rule.family}
        return (self.select is None or bool(names & self.select)) and not names & self.ignore

    def prints(self, problem: Problem) -> bool:
        """Whether a command line prints it: what is wanted; what only informs where it is selected."""
        rule = RULES.get(problem.rule)
        if rule is not None and rule.informs and rule.name not in (self.select or ()):
            return False
        return self.wants(problem)

    def over(self, select: frozenset[str] | None, ignore: frozenset[str] | None) -> RuleSelection:
        """The same with what is not None put in its place."""
        chosen = self if select is None else replace(self, select=select)
        return chosen if ignore is None else replace(chosen, ignore=ignore)


def rule_names(names: Iterable[str]) -> frozenset[str]:
    """`names` of rules and families as a set. Raises ValueError for the first that is neither."""
    known = {*RULES, *(r.family for r in RULES.values())}
    found = frozenset(names)
    for name in sorted(found - known):
        longer = [k for k in sorted(known) if name and k.startswith(name)]
        near = longer or difflib.get_close_matches(name, known, n=1, cutoff=0.7)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(f"{name!r} is no rule and no family of rules{hint}")
    return found
