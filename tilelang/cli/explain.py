"""`tilelang explain RULE`: print the page of a rule: what it finds, why, an example, a near miss, the fix.

Without a rule it lists all of them, with a family its own.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterable

from tilelang.cli.usage import FAILED, FINE, UsageError
from tilelang.diagnostics.pages import rule_page
from tilelang.diagnostics.registry import RULES
from tilelang.diagnostics.rule import Rule


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "rule",
        nargs="?",
        help="a rule's name, as it stands in brackets in a report; a family, as shape, lists its rules; "
        "without it, all are listed",
    )


def execute(options: argparse.Namespace) -> int:
    if options.rule is None:
        _list(RULES.values())
        return FINE
    if family := [rule for rule in RULES.values() if rule.family == options.rule]:
        _list(family)
        return FINE
    if options.rule not in RULES:
        names = {*RULES, *(rule.family for rule in RULES.values())}
        near = difflib.get_close_matches(options.rule, names, n=1, cutoff=0.7)
        hint = f"did you mean {near[0]}?" if near else "`tilelang explain` lists all rules"
        raise UsageError(f"there is no rule called {options.rule!r}; {hint}")
    page = rule_page(options.rule)
    if page is None:
        raise UsageError(f"the page of {options.rule} is not part of this installation", FAILED)
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.markdown import Markdown

        Console().print(Markdown(page))
    else:
        print(page, end="")
    return FINE


def _list(rules: Iterable[Rule]) -> None:
    shown = sorted(rules, key=lambda rule: rule.name)
    width = max(len(rule.name) for rule in shown)
    for rule in shown:
        print(f"{rule.name:<{width}}  {rule.level.value:<7}  {rule.summary}")
