"""Generators that are part of the kernel: `for x in g()` runs the loop's body inside of `g`, at each yield.

So statements around a `yield` (`with T.serial(n) as i: yield i`) are around the loop's body.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tilelang.diagnostics.rules.python import UNSUPPORTED_PYTHON
from tilelang.diagnostics.span import Span
from tilelang.frontend.model import Flow, Function, TooLong
from tilelang.frontend.run import LoopEntry, Run, TooManyItems
from tilelang.frontend.scope import Scope
from tilelang.ir.values import Unknown

_MOST_ITEMS = 1000  # elements of a generator
_STATE = ("scope", "source", "loops", "binding_name", "maybe_returned", "calls", "on_yield")


@dataclass(eq=False)
class Suspended:
    """A call of a generator, of which nothing has been interpreted yet. `scope` holds its parameters."""

    function: Function
    scope: Scope
    called_at: Span


def run_generator(run: Run, call: Suspended, visit: Callable[[Any], None]) -> None:
    """Interpret a generator here; `visit` gets each element, and finds the run as the generator's user has
    it.
    """
    node, name = call.function.node, call.function.name
    assert isinstance(node, ast.FunctionDef)
    outside = _state(run)

    def on_yield(value: Any) -> None:
        with _as(run, outside):
            visit(value)

    inside = {
        "scope": call.scope,
        "source": call.function.source,
        "loops": [],
        "binding_name": None,
        "maybe_returned": [],
        "calls": [*run.calls, (call.function, call.called_at)],
        "on_yield": on_yield,
    }
    with run.called(node, name), _as(run, inside):
        run.exec(node.body)


def generator_loop(
    run: Run, node: ast.For, call: Suspended, assign: Callable[[Any], None], span: Span
) -> Flow | None:
    """`for target in call`. The body may not leave the loop: the generator would have to end in its midst."""

    def visit(value: Any) -> None:
        run.loops.append(LoopEntry(False, len(run.regions)))
        try:
            assign(value)
            flow = run.exec(node.body)
        finally:
            run.loops.pop()
        if flow is not None and flow.kind in ("break", "return"):
            what = f"`{flow.kind}` cannot leave a loop over the generator `{call.function.name}`"
            run.report(UNSUPPORTED_PYTHON, flow.span or span, what=what)

    run_generator(run, call, visit)
    return run.exec(node.orelse)


def all_items(run: Run, name: str, produce: Callable[[Callable[[Any], None]], None]) -> list[Any] | TooLong:
    """The elements that `produce` hands to its argument, all at once; `name`: of the generator."""
    items: list[Any] = []

    def collect(value: Any) -> None:
        items.append(value)
        if len(items) > _MOST_ITEMS:
            raise TooManyItems

    try:
        produce(collect)
    except TooManyItems:
        return TooLong(f"`{name}` yields more elements than are looked at")
    return items


def hand_on(run: Run, value: Any, items: list[Any] | Unknown) -> None:
    """`yield from value`, whose elements are `items` where it is no generator of the kernel."""
    assert run.on_yield is not None
    if isinstance(value, Suspended):
        run_generator(run, value, run.on_yield)
        return
    for item in [items] if isinstance(items, Unknown) else items:
        run.on_yield(item)


def _state(run: Run) -> dict[str, Any]:
    return {name: getattr(run, name) for name in _STATE}


@contextmanager
def _as(run: Run, state: dict[str, Any]) -> Iterator[None]:
    """The run as it is in another function."""
    saved = _state(run)
    for name, value in state.items():
        setattr(run, name, value)
    try:
        yield
    finally:
        for name, value in saved.items():
            setattr(run, name, value)
