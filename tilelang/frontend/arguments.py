"""Arguments of a call with their places, bound to the parameters of a declaration; problems for those
that do not fit.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.diagnostics.span import Span
from tilelang.frontend.model import Late
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import named_type
from tilelang.frontend.suggest import nearest, replacement
from tilelang.ir.values import Buffer, Region, Unknown


@dataclass(frozen=True)
class Argument:
    """One argument as written. `name_span` is the keyword's name."""

    value: Any
    span: Span
    name: str | None = None
    name_span: Span | None = None


@dataclass(eq=False)
class Bound:
    """A call whose arguments fit: given arguments by parameter name."""

    callee: str  # as the author writes it: "T.copy"
    span: Span
    callee_span: Span
    arguments: Mapping[str, Argument]
    items: Mapping[str, list[Argument]] = field(default_factory=dict)  # of a *parameter

    def value(self, name: str, default: Any = None) -> Any:
        if name in self.items:
            return [a.value for a in self.items[name]]
        found = self.arguments.get(name)
        return default if found is None else found.value

    def span_of(self, name: str) -> Span:
        """The argument's place, the whole call if it was not given."""
        found = self.arguments.get(name)
        return self.span if found is None else found.span

    def item_span(self, name: str, index: int) -> Span:
        items = self.items.get(name, [])
        return items[index].span if index < len(items) else self.span


def read_arguments(run: Run, node: ast.Call) -> tuple[list[Argument], dict[str, Argument]] | Unknown:
    """Evaluate positional and keyword arguments from left to right; Unknown if their number is not known."""
    args: list[Argument] = []
    kwargs: dict[str, Argument] = {}
    lost: Unknown | None = None
    for item in node.args:
        if isinstance(item, ast.Starred):
            values = run.eval(item.value)
            if isinstance(values, tuple | list | range | dict | set):
                args.extend(Argument(v, run.span(item)) for v in values)
            else:
                lost = Unknown("the arguments after `*` are not known")
        else:
            args.append(Argument(run.eval(item), run.span(item)))
    for keyword in node.keywords:
        value = run.eval(keyword.value)
        if keyword.arg is not None:
            at = run.span(keyword)
            name_span = replace(at, end_line=at.line, end_column=at.column + len(keyword.arg))
            kwargs[keyword.arg] = Argument(value, run.span(keyword.value), keyword.arg, name_span)
        elif isinstance(value, dict):
            at = run.span(keyword.value)
            kwargs.update({str(k): Argument(v, at, str(k), at) for k, v in value.items()})
        else:
            lost = Unknown("the arguments after `**` are not known")
    return lost if lost is not None else (args, kwargs)


@lru_cache(maxsize=512)
def signature_of(function: Any) -> inspect.Signature:
    """The signature of a declaration."""
    return inspect.signature(function)


def bind_arguments(
    run: Run,
    signature: inspect.Signature,
    callee: str,
    args: list[Argument],
    kwargs: dict[str, Argument],
    span: Span,
    callee_span: Span,
    meant: str | None = None,
    lost: str = "",
) -> Bound | Unknown:
    """Bind as Python would; each argument that does not fit is a problem at its own place.

    meant: the parameter whose value is not known any more where a keyword resembles none, so that what
    follows from the call is checked all the same; None where nothing follows from a call that does not fit.
    lost: why an argument that the caller did write may be missing.
    """
    parameters = list(signature.parameters.values())
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    star = next((p for p in parameters if p.kind is p.VAR_POSITIONAL), None)
    named = {p.name: p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    bound: dict[str, Argument] = {}
    items: dict[str, list[Argument]] = {star.name: []} if star is not None else {}
    failed = False
    for k, argument in enumerate(args):
        if k < len(positional):
            bound[positional[k].name] = argument
        elif star is not None:
            items[star.name].append(argument)
        else:
            limit = len(positional)
            keyword_only = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
            more = f"; {', '.join(keyword_only)} must be given by name" if keyword_only else ""
            what = f"takes {limit} argument{'' if limit == 1 else 's'} by position, not {len(args)}{more}"
            run.report(BAD_ARGUMENTS, argument.span, callee=callee, what=what)
            failed = True
            break
    for name, argument in kwargs.items():
        if name in bound:
            what = f"`{name}` is given twice, by position and by name"
            run.report(BAD_ARGUMENTS, argument.name_span or argument.span, callee=callee, what=what)
            failed = True
        elif name in named or takes_any:
            bound[name] = argument
        else:
            near = nearest(name, [n for n in named if n not in bound and n not in kwargs])
            known = f"did you mean `{near}`?" if near else f"it has {', '.join(named) or 'none'}"
            at = argument.name_span or argument.span
            run.report(
                BAD_ARGUMENTS,
                at,
                fixes=replacement(near, at),
                callee=callee,
                what=f"no parameter `{name}`; {known}",
            )
            if near:
                bound[near] = argument  # what is meant, so that the rest of the kernel is checked
            elif meant is not None:
                if meant not in bound and meant not in kwargs:
                    bound[meant] = Argument(Unknown(f"`{name}` may be meant for it"), at)
            else:
                failed = True
    missing = [
        p.name
        for p in parameters
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and p.name not in bound
    ]
    if missing and not failed:
        what = (
            f"{' and '.join(f'`{m}`' for m in missing)} {'is' if len(missing) == 1 else 'are'} missing{lost}"
        )
        run.report(BAD_ARGUMENTS, span, callee=callee, what=what)
        failed = True
    if failed:
        return Unknown(f"the arguments of {callee} do not fit")
    return Bound(callee, span, callee_span, bound, items)


def as_region(run: Run, call: Bound, name: str) -> Any:
    """The argument `name` as a region: of an element, of a whole buffer.

    Unknown leaves the program incomplete; what is no place in memory comes back as it is.
    """
    value = call.value(name)
    if isinstance(value, Late):
        return value.region
    if isinstance(value, Buffer):
        return Region(value, None, call.span_of(name))
    if isinstance(value, Unknown):
        run.complete = False
    return value


def required_region(run: Run, call: Bound, name: str, expected: str) -> Region | Unknown:
    """The argument `name` as a region; what is no place in memory is reported: it should be `expected`."""
    value = call.value(name)
    if isinstance(value, Late):
        value = value.region
    if isinstance(value, Buffer):
        return Region(value, None, call.span_of(name))
    if isinstance(value, Region | Unknown):
        return value
    what = f"`{name}` must be {expected}, not {named_type(value)}"
    return run.report(BAD_ARGUMENTS, call.span_of(name), callee=call.callee, what=what)


def plain(argument: Argument) -> Any:
    """The value; a late element as the region it stands for."""
    return argument.value.region if isinstance(argument.value, Late) else argument.value
