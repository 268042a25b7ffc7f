"""T.Layout, T.Fragment, make_swizzled_layout and kin, and T.annotate_layout, which gives them to tiles."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tvm import ir
from tvm import tirx as X

from tilelang.arch.dtypes import element_bits
from tilelang.diagnostics.rules.layout import LAYOUT_NOT_INJECTIVE
from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.diagnostics.span import Span
from tilelang.frontend.arguments import Argument, Bound
from tilelang.frontend.constants import unknown_number
from tilelang.frontend.model import NativeMethod
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import any_unknown, named_type, scalar
from tilelang.frontend.tensors import read_shape
from tilelang.ir.prove import free_vars
from tilelang.ir.values import Buffer, Region, Unknown, as_int, show
from tilelang.language.layouts import Fragment, Layout
from tilelang.language.metadata_layouts import metadata_place
from tilelang.layout.annotated import LAYOUTS, Annotation, annotations_text, loop_text
from tilelang.layout.formula import evaluate_formula, formula_text
from tilelang.layout.fragment import prime_factors
from tilelang.ops.operands import declared
from tilelang.ops.source_edits import entry_spans

_PRIVATE = ("local", "local.var")
_SWIZZLES = {
    "make_swizzled_layout": 0,
    "make_wgmma_swizzled_layout": 0,
    "make_volta_swizzled_layout": 0,
    "make_mma_swizzle_layout": 0,
    "make_full_bank_swizzled_layout": 128,
    "make_half_bank_swizzled_layout": 64,
    "make_quarter_bank_swizzled_layout": 32,
}
_TILE_PARAMETER = {
    "make_mma_swizzle_layout": "shared_buf",
    "make_linear_layout": "buffer_or_load_or_region",
}


@dataclass(frozen=True)
class LayoutValue:
    """A layout as a value of the kernel's Python; `functions` as they were given, read when it is used."""

    name: str
    annotation: Annotation
    span: Span


def layout_call(run: Run, op: str, call: Bound) -> Any:
    """The value of `T.Layout(...)`, `T.Fragment(...)`, `make_swizzled_layout(...)`; or an annotation."""
    if op == "annotate_layout":
        _annotate(run, call)
        return None
    if op in ("Layout", "Fragment"):
        return _by_function(run, op, call)
    name = _TILE_PARAMETER.get(op, "buffer")
    buffer = _buffer(call.value(name))
    if isinstance(buffer, Unknown):
        return buffer
    if buffer is None:
        what = f"`{name}` must be a tile, not {named_type(call.value(name))}"
        return run.report(BAD_ARGUMENTS, call.span_of(name), callee=call.callee, what=what)
    shape = _constant_shape(buffer.shape)
    if shape is None or isinstance(buffer.dtype, Unknown):
        return Unknown(f"the shape or dtype of `{buffer.name}` is not known")
    if op == "make_cutlass_metadata_layout":
        return _of_metadata(run, call, buffer, shape)
    if op == "make_linear_layout" or call.value("is_smooth", False) is True:
        return LayoutValue(op, Annotation("linear", shape), call.span)
    wide = _SWIZZLES[op]
    made = Annotation("swizzle" if wide else "auto", shape, wide)
    try:
        made.shared(shape, element_bits(buffer.dtype))
    except ValueError as error:
        return run.report(BAD_ARGUMENTS, call.span_of(name), callee=call.callee, what=str(error))
    return LayoutValue(op, made, call.span)


def _of_metadata(run: Run, call: Bound, buffer: Buffer, shape: tuple[int, ...]) -> Any:
    given = [call.value("mma_dtype", "float16"), call.value("arch", None), call.value("block_k", None)]
    lost = any_unknown(given)
    if lost is not None:
        return lost
    try:
        place = metadata_place(shape, element_bits(buffer.dtype), *given)
    except ValueError as error:
        return run.report(BAD_ARGUMENTS, call.span, callee=call.callee, what=str(error))
    return layout_of(place, shape, call.span)


def _buffer(value: Any) -> Buffer | Unknown | None:
    if isinstance(value, Region):
        return value.buffer
    return value if isinstance(value, Buffer | Unknown) else None


def _constant_shape(shape: Any) -> tuple[int, ...] | None:
    numbers = [as_int(n) for n in shape]
    return None if None in numbers else tuple(n for n in numbers if n is not None)


def _by_function(run: Run, op: str, call: Bound) -> Any:
    shape = read_shape(run, call.value("shape"), call.span_of("shape"))
    if isinstance(shape, Unknown) or any_unknown(shape) is not None:
        return Unknown("the shape of the layout is not known")
    if op == "Layout":
        function = call.value("forward_fn")
        return _evaluated(run, call, "forward_fn", lambda: layout_of(function, shape, call.span))
    copies = call.value("replicate", 1)
    both, of_thread = call.value("forward_fn"), call.value("forward_thread_fn")
    if any(isinstance(v, Unknown) for v in (copies, both, of_thread)):
        return Unknown("the fragment's functions are not known")
    if both is None and of_thread is None:
        what = "needs forward_fn, or forward_thread_fn"
        return run.report(BAD_ARGUMENTS, call.span, callee=call.callee, what=what)
    if _constant_shape(shape) is None or as_int(copies) is None:
        lost = unknown_number(run, (*shape, copies))
        if lost is not None:
            return lost
        what = "the shape and `replicate` of a fragment must be numbers known at compile time"
        return run.report(BAD_ARGUMENTS, call.span_of("shape"), callee=call.callee, what=what)
    of_register = call.value("forward_index_fn")
    return _evaluated(
        run,
        call,
        "forward_fn" if both is not None else "forward_thread_fn",
        lambda: _fragment_of(
            both, of_thread, of_register, _constant_shape(shape) or (), int(copies), call.span
        ),
    )


def _evaluated(run: Run, call: Bound, argument: str, make: Callable[[], LayoutValue | Unknown]) -> Any:
    """What `make` returns; what an author's function cannot be becomes a problem at the argument."""
    try:
        return make()
    except (TypeError, ValueError) as error:
        what = f"`{argument}` is no function of the indices that a layout can be made from: {error}"
        return run.report(BAD_ARGUMENTS, call.span_of(argument), callee=call.callee, what=what)


def layout_of(function: Any, shape: tuple[Any, ...], span: Span) -> LayoutValue | Unknown:
    """The layout that a function of the indices describes. Raises ValueError if it is none."""
    names = [X.Var(f"i{k}", "int32") for k in range(len(shape))]
    result = function(*names)
    parts = list(result) if isinstance(result, tuple | list) else [result]
    unknown = any_unknown(parts)
    if unknown is not None:
        return unknown
    _check_numbers(parts)
    texts = {v.__chandle__(): str(v.name) for v in names}
    constant = _constant_shape(shape)
    _check_names(parts, [*names, *(v for n in shape for v in free_vars(n))])
    if constant is not None:
        grid = np.meshgrid(*(np.arange(n) for n in constant), indexing="ij")
        drafts = [Annotation("formula", constant, place=formula_text(p, texts)) for p in parts]
        if any(int(d.places.min()) < 0 for d in drafts):
            raise ValueError("it gives negative places")
        extents: list[Any] = [int(np.broadcast_to(d.places, grid[0].shape).max()) + 1 for d in drafts]
    else:
        ends = {v.__chandle__(): n for v, n in zip(names, shape, strict=True)}
        extents = [_upper(p, ends) + 1 for p in parts]
    offset: Any = 0
    for part, extent in zip(parts, extents, strict=True):
        offset = part if isinstance(offset, int) and offset == 0 else offset * extent + part
    size: Any = 1
    for extent in extents:
        size = size * extent
    return LayoutValue(
        "T.Layout",
        Annotation(
            "formula",
            tuple(n if isinstance(n, int) else formula_text(n, {}) for n in (as_int(s) or s for s in shape)),
            place=formula_text(offset, texts),
            size=size if isinstance(size, int) else formula_text(size, {}),
        ),
        span,
    )


def _check_numbers(parts: list[Any]) -> None:
    for part in parts:
        if isinstance(part, bool) or not isinstance(part, int | ir.Expr):
            raise ValueError(f"it gives {named_type(part)} instead of integers")


def _check_names(parts: list[Any], known: list[ir.Var]) -> None:
    """A layout is one for the whole kernel: it depends on the indices, and on sizes that its shape names."""
    handles = {v.__chandle__() for v in known}
    others = sorted({str(v.name) for p in parts for v in free_vars(p) if v.__chandle__() not in handles})
    if others:
        raise ValueError(f"it depends on `{others[0]}`, which is known only while the kernel runs")


def _upper(value: Any, ends: dict[int, Any]) -> Any:
    """The largest value of an index expression over symbolic sizes. Raises ValueError if it is not plain."""
    number = as_int(value)
    if number is not None:
        return number
    kind = type(value)
    if isinstance(value, ir.Var):
        end = ends.get(value.__chandle__())
        return value if end is None else end - 1
    if kind is X.Add:
        return _upper(value.a, ends) + _upper(value.b, ends)
    right = as_int(value.b) if hasattr(value, "b") else None
    if kind is X.Mul and right is not None and right > 0:
        return _upper(value.a, ends) * right
    if kind is X.FloorDiv and right is not None and right > 0:
        return _upper(value.a, ends) // right
    if kind is X.FloorMod and right is not None and right > 0:
        return right - 1
    raise ValueError(f"the extent of `{value}` is not plain while sizes are symbols")


def _fragment_of(
    both: Any, of_thread: Any, of_register: Any, shape: tuple[int, ...], copies: int, span: Span
) -> LayoutValue | Unknown:
    names = [X.Var(f"i{k}", "int32") for k in range(len(shape))]
    copy = X.Var(f"i{len(shape)}", "int32")
    given = [*names, copy] if copies > 1 else names
    if both is not None:
        result = both(*given)
        if not isinstance(result, tuple | list) or len(result) != 2:
            raise ValueError("it must give the thread and the register, two values")
        thread, register = result
    else:
        thread = of_thread(*given)
        register = of_register(*names) if of_register is not None else None
    register = register[0] if isinstance(register, tuple | list) and len(register) == 1 else register
    unknown = any_unknown([thread, register])
    if unknown is not None:
        return unknown
    given_parts = [thread] if register is None else [thread, register]
    _check_numbers(given_parts)
    _check_names(given_parts, [*names, copy])
    texts = {v.__chandle__(): str(v.name) for v in (*names, copy)}
    made = Annotation("fragment", shape, thread=formula_text(thread, texts), replicate=copies, place="0")
    if register is None:
        return LayoutValue("T.Fragment", replace(made, place=_numbered(made)), span)
    return LayoutValue("T.Fragment", replace(made, place=formula_text(register, texts)), span)


def _numbered(made: Annotation) -> str:
    """Registers in the order of the elements of each thread, where a product of digits says so.

    Raises ValueError where it does not.
    """
    owner = made.threads.reshape(-1, made.threads.shape[-1])[:, 0]
    number = np.zeros(len(owner), int)
    seen: dict[int, int] = {}
    for k, thread in enumerate(owner.tolist()):
        number[k] = seen.get(thread, 0)
        seen[thread] = number[k] + 1
    terms, stride = [], 1
    for dim in reversed(range(len(made.shape))):
        inner = 1
        for factor in prime_factors(int(made.shape[dim])):
            step = int(number[stride]) if owner[stride] == owner[0] else 0
            if step:
                terms.append(f"(((i{dim} // {inner}) % {factor}) * {step})")
            stride, inner = stride * factor, inner * factor
    text = " + ".join(reversed(terms)) or "0"
    found = replace(made, place=text).places.reshape(len(owner), -1)[:, 0]
    if not (found == number).all():
        raise ValueError("the registers are not numbered by digits of the indices: give forward_index_fn")
    return text


# Layouts of loops


def loop_layout_text(run: Run, value: Any, extents: Any, span: Span, callee: str) -> Any:
    """`loop_layout=` of a loop or a copy as the text that the loop carries; None where none is given.

    extents: of the loop; None where the operation decides them.
    """
    if isinstance(value, Layout | Fragment):
        value = _made_outside(run, value, span)
    if value is None or isinstance(value, Unknown):
        return value
    what = ""
    if not isinstance(value, LayoutValue) or value.annotation.kind != "fragment":
        given = f"a {value.name}" if isinstance(value, LayoutValue) else named_type(value)
        what = f"`loop_layout` must be a T.Fragment, not {given}"
    elif extents is not None and _different(extents, value.annotation.shape):
        what = (
            f"the loop runs over ({', '.join(map(show, extents))}), "
            f"its layout is for ({', '.join(map(str, value.annotation.shape))})"
        )
    elif int(value.annotation.threads.min()) < 0:
        what = "the layout of the loop gives a negative thread"
    elif (clash := _clash(value.annotation)) is not None:
        what = "the layout of the loop puts {first} and {second} at one {place}".format(**clash)
    if what:
        return run.report(BAD_ARGUMENTS, span, callee=callee, what=what)
    return loop_text(value.annotation)


def _different(extents: Any, shape: tuple[int | str, ...]) -> bool:
    return len(extents) != len(shape) or any(
        not isinstance(e, Unknown) and as_int(e) != n for e, n in zip(extents, shape, strict=True)
    )


# T.annotate_layout


def _annotate(run: Run, call: Bound) -> None:
    given = call.value("layout_map")
    span = call.span_of("layout_map")
    if isinstance(given, Unknown):
        run.complete = False
        return
    if not isinstance(given, dict):
        what = f"takes a dict of tiles and their layouts, not {named_type(given)}"
        run.report(BAD_ARGUMENTS, span, callee=call.callee, what=what)
        return
    found = dict(run.layouts)
    places = entry_spans(span, run.source.text)
    places = places if len(places) == len(given) else [span] * len(given)
    for at, (key, value) in zip(places, given.items(), strict=True):
        buffer = _buffer(key)
        if isinstance(buffer, Unknown) or isinstance(value, Unknown):
            run.complete = False
            continue
        if buffer is None:
            what = f"lays out tiles, not {named_type(key)}"
            run.report(BAD_ARGUMENTS, span, callee=call.callee, what=what)
            continue
        if isinstance(value, Layout | Fragment):
            value = _made_outside(run, value, at)
        elif callable(value) and not isinstance(value, LayoutValue):
            function = value
            value = _evaluated(
                run, call, "layout_map", lambda f=function, b=buffer, s=at: layout_of(f, b.shape, s)
            )
        if isinstance(value, Unknown):
            run.complete = False
            continue
        if (
            buffer.scope in _PRIVATE
            and isinstance(value, LayoutValue)
            and value.annotation.kind == "fragment"
        ):
            continue  # a thread's own array: there is nothing to distribute
        wrong = _misfit(buffer, value)
        if wrong:
            run.report(BAD_ARGUMENTS, at, callee=call.callee, what=wrong)
            continue
        clash = _clash(value.annotation)
        if clash is not None:
            run.report(LAYOUT_NOT_INJECTIVE, at, related=declared(buffer), buffer=buffer.name, **clash)
            continue
        found[buffer.name] = value.annotation
    run.layouts = found
    run.attrs[LAYOUTS] = annotations_text(found)


def _made_outside(run: Run, made: Layout | Fragment, span: Span) -> Any:
    """The value of a layout that running Python has made, around the kernel."""
    op = type(made).__name__
    arguments = {name: Argument(value, span) for name, value in made.given.items()}
    return _by_function(run, op, Bound(f"T.{op}", span, span, arguments))


def _misfit(buffer: Buffer, value: Any) -> str:
    """Why a layout does not fit a buffer; empty if it does."""
    if not isinstance(value, LayoutValue):
        return f"the layout of `{buffer.name}` must be a T.Layout or a function, not {named_type(value)}"
    made = value.annotation
    if buffer.scope == "local.fragment" and made.kind != "fragment":
        return f"`{buffer.name}` is a fragment: its layout must be a T.Fragment, not a {value.name}"
    if buffer.scope != "local.fragment" and made.kind == "fragment":
        return f"`{buffer.name}` is no fragment: its layout must be a T.Layout, not a T.Fragment"
    if buffer.scope not in ("shared", "global", "local.fragment"):
        return f"`{buffer.name}` is private to each thread and has no layout to choose"
    if buffer.view_of is not None:
        return f"`{buffer.name}` is a view: give the layout to `{buffer.storage.name}`"
    if buffer.scope == "global" and made.kind == "formula" and isinstance(made.size, int):
        elements = [as_int(n) for n in buffer.shape]
        room = math.prod(n for n in elements if n is not None)
        if made.size > room:
            return f"the layout of `{buffer.name}` needs {made.size} places, the tensor has {room} elements"
    if buffer.scope == "global" and made.kind not in ("formula", "linear"):
        return f"`{buffer.name}` is a global tensor, which takes a T.Layout, no swizzle"
    shape = [as_int(n) for n in buffer.shape]
    own = [as_int(n) if isinstance(n, int) else None for n in made.shape]
    different = any(a != b for a, b in zip(shape, own, strict=False) if a is not None and b is not None)
    if len(shape) != len(own) or different:
        return (
            f"`{buffer.name}` is ({', '.join(map(show, buffer.shape))}), "
            f"its layout is for ({', '.join(map(str, made.shape))})"
        )
    if made.kind == "fragment" and _is_known(made) and int(made.threads.min()) < 0:
        return f"the layout of `{buffer.name}` gives a negative thread"
    return ""


def _is_known(made: Annotation) -> bool:
    return all(isinstance(n, int) for n in made.shape)


def _clash(made: Annotation) -> dict[str, Any] | None:
    """Two elements at one place, as the fields of layout-not-injective; None if there are none."""
    if made.kind not in ("formula", "fragment") or not _is_known(made):
        return None
    places = made.places
    if made.kind == "fragment":
        places = made.threads * (int(places.max()) + 1) + places
    flat = places.ravel()
    order = np.argsort(flat, kind="stable")
    same = np.nonzero(flat[order][1:] == flat[order][:-1])[0]
    if not len(same):
        return None
    first, second = (
        tuple(int(x) for x in np.unravel_index(order[k], places.shape)[: len(made.shape)])
        for k in (same[0], same[0] + 1)
    )
    place = f"place {int(flat[order[same[0]]])}"
    if made.kind == "fragment":
        register = int(made.places.ravel()[order[same[0]]])
        place = f"register {register} of thread {int(made.threads.ravel()[order[same[0]]])}"
    count = math.prod(int(n) for n in made.shape)
    return {"first": first, "second": second, "place": place, "count": count}


def _thread_at(run: Run, owner: Any, args: list[Argument], kwargs: dict[str, Argument]) -> Any:
    """`fragment.map_forward_thread([i, j])`: the thread that holds an element."""
    return _at(run, owner, owner.annotation.thread, args, kwargs)


def _register_at(run: Run, owner: Any, args: list[Argument], kwargs: dict[str, Argument]) -> Any:
    """`fragment.map_forward_index([i, j])`: the register that holds it."""
    return _at(run, owner, owner.annotation.place, args, kwargs)


def _at(run: Run, owner: LayoutValue, formula: str, args: list[Argument], kwargs: dict[str, Argument]) -> Any:
    given = [*args, *kwargs.values()]
    if owner.annotation.kind != "fragment" or len(given) != 1 or not isinstance(given[0].value, list | tuple):
        return Unknown("what this layout gives is not known to the compiler")
    indices = [scalar(run, i, given[0].span) for i in given[0].value]
    unknown = any_unknown(indices)
    if unknown is not None:
        return unknown
    rank = len(owner.annotation.shape)
    if len(indices) not in (rank, rank + 1):
        what = f"takes a list of {rank} indices, not {len(indices)}"
        return run.report(BAD_ARGUMENTS, given[0].span, callee="the layout", what=what)
    copy = indices[0] if len(indices) > rank else 0  # stands before the indices, as the variables do
    return (evaluate_formula(formula, [*indices[-rank:], copy]),)


LAYOUT_METHODS = {
    "map_forward_thread": NativeMethod(_thread_at),
    "map_forward_index": NativeMethod(_register_at),
}
