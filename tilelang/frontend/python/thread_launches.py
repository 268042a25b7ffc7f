"""T.launch_thread: a launch written one dimension at a time, as TVM's own script has it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tvm import ir

from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.frontend.model import Flow, Frame
from tilelang.frontend.operations.launches import launched, may_launch
from tilelang.frontend.operations.thread_tags import TAGS, short_name
from tilelang.frontend.python.targets import assign
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import named_type
from tilelang.frontend.tensors import read_size
from tilelang.ir.tile_program import Launch
from tilelang.ir.values import Unknown, as_int, show

_CALLEE = "T.launch_thread"

Go = Callable[[], "Flow | None"]


@dataclass
class Dimensions:
    """The dimensions that a launch has been given so far, by name: the number and how many there are."""

    launch: Launch
    given: dict[str, tuple[ir.Var, Any]] = field(default_factory=dict)


def with_thread_launch(run: Run, item: ast.withitem, frame: Frame, go: Go) -> Flow | None:
    """One dimension; `go` interprets the body."""
    if run.dimensions is None and not may_launch(run, frame):
        return None
    tag, var = _which(run, frame, item)
    extent = read_size(run, frame.arguments["extent"], frame.spans["extent"], "an extent of the launch")
    if tag is None or var is None:
        run.complete = False
        return None
    if run.dimensions is None:
        return _first(run, item, frame, (tag, var, extent), go)
    if tag in run.dimensions.given:
        what = f"the launch has {tag} already"
        run.report(BAD_ARGUMENTS, frame.span, callee=_CALLEE, what=what)
        return None
    return _inside(run, item, frame, (tag, var, extent), go)


def _which(run: Run, frame: Frame, item: ast.withitem) -> tuple[str | None, ir.Var | None]:
    thread, at = frame.arguments["thread"], frame.spans.get("thread", frame.span)
    if isinstance(thread, Unknown):
        return None, None
    if isinstance(thread, ir.Var) and thread in run.env_threads:
        return run.env_threads[thread], thread
    if isinstance(thread, str) and thread in TAGS:
        target = item.optional_vars
        return thread, run.fresh(target.id if isinstance(target, ast.Name) else short_name(thread))
    found = repr(thread) if isinstance(thread, str) else named_type(thread)
    what = f"`thread` is one of {', '.join(map(repr, TAGS))}, or what T.env_thread gave, not {found}"
    run.report(BAD_ARGUMENTS, at, callee=_CALLEE, what=what)
    return None, None


def _first(
    run: Run, item: ast.withitem, frame: Frame, dimension: tuple[str, ir.Var, Any], go: Go
) -> Flow | None:
    launch = Launch((1,), None, (run.fresh("bx"),), (), [], frame.span)
    run.dimensions = Dimensions(launch)

    def inside() -> Flow | None:
        flow = _inside(run, item, frame, dimension, go)
        if launch.threads is None:
            launch.threads, launch.thread_vars = (1,), (run.fresh("tx"),)
        return flow

    try:
        return launched(run, launch, inside)
    finally:
        run.dimensions = None


def _inside(
    run: Run, item: ast.withitem, frame: Frame, dimension: tuple[str, ir.Var, Any], go: Go
) -> Flow | None:
    tag, var, extent = dimension
    dimensions = run.dimensions
    assert dimensions is not None
    if tag.startswith("threadIdx") and (as_int(extent) is None or not (as_int(extent) or 0) > 0):
        if not isinstance(extent, Unknown):
            what = (
                f"the number of threads must be a positive number known at compile time, not {show(extent)}"
            )
            run.report(BAD_ARGUMENTS, frame.spans["extent"], callee=_CALLEE, what=what)
        run.complete = False
        return None
    dimensions.given[tag] = var, extent
    _renew(run, dimensions)
    if item.optional_vars is not None:
        assign(run, item.optional_vars, var)
    return go()


def _renew(run: Run, dimensions: Dimensions) -> None:
    """The launch with the dimensions known so far; those between them that are not given are 1."""
    launch = dimensions.launch
    for kind in ("blockIdx", "threadIdx"):
        given = {TAGS[tag][1]: found for tag, found in dimensions.given.items() if tag.startswith(kind)}
        if not given:
            continue
        count = max(given) + 1
        made = [given.get(k) or (run.fresh(short_name(f"{kind}.{'xyz'[k]}")), 1) for k in range(count)]
        variables, extents = tuple(v for v, _ in made), tuple(e for _, e in made)
        if kind == "blockIdx":
            launch.block_vars, launch.grid = variables, extents
        else:
            launch.thread_vars, launch.threads = variables, extents
