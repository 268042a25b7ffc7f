"""The launch plan of a tile function: its parameters, the sizes it solves from them, its grid and threads, as
data.

In:  a PrimFunc as `ir.build` makes it (or its thread-level form: both carry the same parameters and
     `thread_extent`s).
Out: a `LaunchPlan` whose sizes are integers or Python expressions over symbols.
Not: choosing anything; shared memory and further arguments come from the target's lowering.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal

import tvm_ffi
from tvm import ir
from tvm import tirx as X

from tilelang.ir.build import OUTPUTS, POINTERS, WORKSPACES
from tilelang.ir.thread_ops import waits_for_the_grid
from tilelang.passes.accesses import all_accesses, storages
from tilelang.runtime.plan import LaunchPlan, ScalarParam, SizeExpr, TensorParam
from tilelang.targets.emit.names import entry_name

Kind = Literal["cuda", "hip", "metal", "cpu"]


def launch_plan(
    func: X.PrimFunc,
    kind: Kind,
    *,
    shared_bytes: int = 0,
    outputs: tuple[int, ...] | None = None,
    alignment: Mapping[str, int] = MappingProxyType({}),
) -> LaunchPlan:
    """The plan of `func` on a target of `kind`. `outputs` None takes the function's `tl.outputs` attribute;
    `alignment` is in bytes by parameter, 1 for those it does not name.

    On the CPU the blocks are loops inside the function, so grid and threads are (1,). Raises ValueError if
    the grid depends on something that is neither a parameter nor a size of one, or if there is more than one
    launch.
    """
    name = str(func.attrs["global_symbol"])
    symbols = free_sizes(func)
    grid, threads = ((1,), (1,)) if kind == "cpu" else launch_extents(func)
    if outputs is None:
        outputs = tuple(int(i) for i in func.attrs[OUTPUTS]) if OUTPUTS in func.attrs else ()
    pointers = frozenset(str(func.attrs[POINTERS]).split()) if POINTERS in func.attrs else frozenset()
    touched = {v.__chandle__() for v in _variables(func.body)}
    written = _written(func.body)
    params = tuple(
        _param(p, alignment, pointers, p.__chandle__() not in touched, p.__chandle__() in written)
        for p in func.params
    )
    hidden = int(func.attrs[WORKSPACES]) if WORKSPACES in func.attrs else 0
    symbol_names = tuple(str(v.name) for v in symbols)
    known = {*symbol_names, *(p.name for p in params if isinstance(p, ScalarParam))}
    for extent in grid:
        for var in _variables(extent):
            if str(var.name) not in known:
                raise ValueError(f"the grid of {name} depends on {var.name}, which no argument determines")
    return LaunchPlan(
        kernel=name,
        entry=entry_name(func),
        params=params,
        outputs=outputs,
        symbols=symbol_names,
        wide=tuple(str(v.name) for v in symbols if str(v.ty) == "int64"),
        grid=tuple(size_expr(e) for e in grid),
        threads=tuple(int(t) for t in threads),
        shared_bytes=shared_bytes,
        arguments=(*(p.name for p in params), *symbol_names),
        kind=kind,
        hidden=hidden,
        cooperative=kind == "cuda" and waits_for_the_grid(func.body),
    )


def free_sizes(func: X.PrimFunc) -> list[ir.Var]:
    """Variables in shapes and strides of the parameters that are not parameters themselves, in order of
    appearance.

    They are the symbols of the plan; the device function takes them after its parameters.
    """
    found: list[ir.Var] = []
    scalars = [p for p in func.params if not X.is_buffer_var(p)]
    for param in func.params:
        if not X.is_buffer_var(param):
            continue
        for size in [*param.shape, *param.strides]:
            for var in _variables(size):
                if not any(var.same_as(v) for v in [*found, *scalars]):
                    found.append(var)
    return found


def launch_extents(func: X.PrimFunc) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    """(grid, threads) of the one launch in `func`, x first. (1,), (1,) where the function has none."""
    extents: dict[str, Any] = {}
    for node in launch_attributes(func.body):
        tag = str(node.node.thread_tag)
        if tag in extents:
            raise ValueError(f"{func.attrs['global_symbol']} launches twice; one launch per kernel")
        extents[tag] = node.value
    grid = tuple(extents[f"blockIdx.{d}"] for d in "xyz" if f"blockIdx.{d}" in extents)
    threads = tuple(int(extents[f"threadIdx.{d}"]) for d in "xyz" if f"threadIdx.{d}" in extents)
    return grid or (1,), threads or (1,)


def launch_attributes(stmt: Any) -> Iterator[X.AttrStmt]:
    """The `thread_extent` attributes in `stmt`, outer first."""
    if isinstance(stmt, X.SeqStmt):
        for part in stmt.seq:
            yield from launch_attributes(part)
    elif isinstance(stmt, X.AttrStmt):
        if stmt.attr_key == "thread_extent":
            yield stmt
        yield from launch_attributes(stmt.body)


def size_expr(value: Any) -> SizeExpr:
    """An integer, or the expression in Python syntax with the operators that `runtime.plan` evaluates."""
    if isinstance(value, int):
        return value
    if isinstance(value, X.IntImm):
        return int(value.value)
    return _text(value)


_INFIX: dict[type, str] = {
    X.Add: "+",
    X.Sub: "-",
    X.Mul: "*",
    X.FloorDiv: "//",
    X.FloorMod: "%",
    X.Div: "//",  # sizes are not negative, where truncation and floor agree
    X.Mod: "%",
    X.LT: "<",
    X.LE: "<=",
    X.GT: ">",
    X.GE: ">=",
    X.EQ: "==",
    X.NE: "!=",
}
_CALLS: dict[type, str] = {X.Min: "min", X.Max: "max"}


def _text(value: Any, nested: bool = False) -> str:
    kind = type(value)
    if kind is X.IntImm:
        return str(int(value.value))
    if kind is X.Cast:
        return _text(value.value, nested)
    if isinstance(value, ir.Var):
        return str(value.name)
    if kind in _CALLS:
        return f"{_CALLS[kind]}({_text(value.a)}, {_text(value.b)})"
    if kind in _INFIX:
        text = f"{_text(value.a, True)} {_INFIX[kind]} {_text(value.b, True)}"
        return f"({text})" if nested else text
    raise ValueError(f"a size cannot contain {value}")


def _variables(value: Any) -> list[ir.Var]:
    if isinstance(value, int):
        return []
    found: list[ir.Var] = []
    collect: Callable[[Any], None] = found.append
    tvm_ffi.structural_walk(value, (ir.Var, collect))
    return found


def _written(body: Any) -> set[int]:
    """Handles of the buffers that `body` may write, by themselves or by a view."""
    named = storages(body)
    handles = {a.buffer.__chandle__() for a in all_accesses(body) if a.mode == "write"}
    found = set(handles)
    while handles := {named[h] for h in handles if h in named} - found:
        found |= handles
    return found


def _param(
    param: ir.Var, alignment: Mapping[str, int], pointers: frozenset[str], unused: bool, written: bool
) -> TensorParam | ScalarParam:
    if not X.is_buffer_var(param):
        return ScalarParam(str(param.name), str(param.ty.dtype))
    shape = tuple(size_expr(s) for s in param.shape)
    strides = tuple(size_expr(s) for s in param.strides) or None
    name = str(param.name)
    aligned = alignment.get(name, 1)
    return TensorParam(name, str(param.dtype), shape, strides, aligned, name in pointers, unused, written)
