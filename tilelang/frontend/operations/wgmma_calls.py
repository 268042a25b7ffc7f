"""T.ptx_wgmma_ss, T.ptx_wgmma_rs, those of a 2:4 sparse A, and their descriptors; the marks around products
of warp groups.

A descriptor is a number of 64 bits, so moving it is arithmetic. The marks are kept only in kernels with such
instructions (`without_marks`): T.wgmma_gemm needs none.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

from tvm import ir
from tvm import tirx as X

from tilelang.arch.dtypes import canonical_dtype, element_bits
from tilelang.arch.wgmma import depth, multiplies, one_product
from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.frontend.arguments import Bound
from tilelang.frontend.model import BufferData
from tilelang.frontend.operations.matrix_calls import address_argument, complete_as_before, registers
from tilelang.frontend.operators import binary, cast
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import any_unknown, named_type, scalar
from tilelang.frontend.tensors import new_buffer
from tilelang.ir import tile_ops
from tilelang.ir.thread_ops import call_name
from tilelang.ir.tile_program import Access, Alloc, Evaluate, For, If, Launch, Node, Store
from tilelang.ir.values import Buffer, Index, Region, Unknown, as_int, show

_HOLD = "tl.hold_"
_PREFIX = re.compile(r"m64n(\d+)k(\d+)")
_MOST = 1 << 14  # fields of a descriptor are below
# Accumulators and operands that are held in registers: bits of an element -> PTX type of the register.
_HELD = {"float32": ("f32", 1), "float16": ("f16", 2), "bfloat16": ("f16", 2)}


def _allocate(run: Run, call: Bound) -> Any:
    kind = call.value("kind", "wgmma")
    if isinstance(kind, Unknown):
        return run.unknown(kind.reason)
    if kind != "wgmma":
        what = f'`kind` is "wgmma": {kind!r} describes tiles for tensor memory, which sm_100 has'
        return run.report(BAD_ARGUMENTS, call.span_of("kind"), callee=call.callee, what=what)
    made = new_buffer(run, "local", (1,), "uint64", call.span, fallback="desc")
    run.emit(Alloc(made, call.span))
    return made


def _descriptor(run: Run, call: Bound, name: str) -> Buffer | Unknown:
    """The variable that an argument names, as `desc`, `desc[0]` or `desc.data`."""
    value = call.value(name)
    if isinstance(value, BufferData):
        value = value.buffer
    if isinstance(value, Region):
        value = value.buffer
    if isinstance(value, Unknown):
        run.complete = False
        return value
    if isinstance(value, Buffer) and value.scope == "local" and value.dtype == "uint64":
        return value
    what = f"`{name}` must be a descriptor made by T.alloc_wgmma_desc(), not {named_type(value)}"
    return run.report(BAD_ARGUMENTS, call.span_of(name), callee=call.callee, what=what)


def _value(run: Run, call: Bound, descriptor: Buffer) -> Any:
    _note(run, call, descriptor, "read")
    return X.BufferLoad(descriptor.var, [X.const(0, "int32")])


def _store(run: Run, call: Bound, descriptor: Buffer, value: Any) -> None:
    _note(run, call, descriptor, "write")
    run.emit(Store(descriptor, (X.const(0, "int32"),), value, call.span, run.context))


def _note(run: Run, call: Bound, descriptor: Buffer, mode: Literal["read", "write"]) -> None:
    place = (Index(0, None, call.span),)
    run.accesses.append(Access(descriptor, place, mode, call.span, run.context))


def _initialize(run: Run, call: Bound) -> None:
    target, start = _descriptor(run, call, "descriptor"), address_argument(run, call, "start_address")
    fields = []
    for name, most in (("layout_type_", 4), ("leading_byte_offset", _MOST), ("stride_byte_offset", _MOST)):
        given = call.value(name, 0)
        number = as_int(given)
        if isinstance(given, Unknown):
            run.complete = False
            return
        if number is None or not 0 <= number < most:
            what = f"`{name}` is a number known at compile time, 0 to {most - 1}, not {show(given)}"
            run.report(BAD_ARGUMENTS, call.span_of(name), callee=call.callee, what=what)
            return
        fields.append(X.const(number, "int32"))
    if isinstance(target, Unknown) or isinstance(start, Unknown):
        return
    tile = start.args[0].source
    if not str(tile.scope()).startswith("shared"):
        what = f"`start_address` must lie in shared memory, but `{tile.name}` is in {tile.scope()}"
        run.report(BAD_ARGUMENTS, call.span_of("start_address"), callee=call.callee, what=what)
        return
    made = tile_ops.call(tile_ops.MATRIX_DESCRIPTOR, [*fields, start], dtype="uint64", span=call.span)
    _store(run, call, target, made)


def _increase(run: Run, call: Bound) -> None:
    target = _descriptor(run, call, "descriptor")
    offset = scalar(run, call.value("offset"), call.span_of("offset"))
    if isinstance(target, Unknown) or isinstance(offset, Unknown):
        run.complete = False
        return
    number = as_int(offset)
    if not isinstance(offset, ir.Expr | int) or (number is not None and number % 16):
        what = f"`offset` must be a number of bytes, a multiple of 16, not {show(offset)}"
        run.report(BAD_ARGUMENTS, call.span_of("offset"), callee=call.callee, what=what)
        return
    units = number // 16 if number is not None else binary(ast.RShift, offset, 4)
    _store(run, call, target, _moved(run, call, target, units))


def _moved(run: Run, call: Bound, descriptor: Buffer, units: Any) -> Any:
    value = _value(run, call, descriptor)
    return value if as_int(units) == 0 else value + cast("uint64", units)


def _product(by_registers: bool, sparse: bool = False) -> Callable[[Run, Bound], None]:
    metadata = "E_buf" if by_registers else "E_data"

    def emit(run: Run, call: Bound) -> None:
        complete_as_before(run, call, ("A_desc", "A_buf", "B_desc", "C_data", "E_buf", "E_data"))
        name = _instruction(run, call, by_registers, sparse)
        if by_registers:
            left = registers(run, call, "A_buf", "A_offset", ("read",))
        else:
            left = _operand(run, call, "A_desc", "A_offset")
        right = _operand(run, call, "B_desc", "B_offset")
        result = registers(run, call, "C_data", "C_offset", ("read", "write"))
        scale = scalar(run, call.value("scale_out"), call.span_of("scale_out"))
        more = [registers(run, call, metadata, "E_offset", ("read",))] if sparse else []
        lost = any_unknown([left, right, result, scale, *more])
        if lost is not None:
            run.complete = False
        elif name is not None and run.launch is not None:
            run.attrs[tile_ops.SINGLE_PRODUCTS] = True
            args = [result, left, right, cast("int32", scale), *more]
            run.emit(Evaluate(tile_ops.call(f"tl.{name}", args, span=call.span), call.span))

    return emit


def _operand(run: Run, call: Bound, name: str, offset: str) -> Any:
    descriptor = _descriptor(run, call, name)
    units = scalar(run, call.value(offset), call.span_of(offset))
    if isinstance(descriptor, Unknown) or isinstance(units, Unknown):
        return descriptor if isinstance(descriptor, Unknown) else units
    return _moved(run, call, descriptor, units)


def _negative(run: Run, call: Bound, name: str) -> bool | None:
    """Whether an operand's negative is taken; None if that is not said or not known."""
    given = call.value(name)
    number = as_int(given)
    if isinstance(given, Unknown):
        run.complete = False
    elif number not in (0, 1):
        what = f"`{name}` is True, or False for the operand's negative, not {show(given)}"
        run.report(BAD_ARGUMENTS, call.span_of(name), callee=call.callee, what=what)
    return None if isinstance(given, Unknown) or number not in (0, 1) else not number


def _dtype(spelling: Any) -> str:
    name = canonical_dtype(spelling)
    return "float32" if name == "tfloat32" else name


def _instruction(run: Run, call: Bound, by_registers: bool, sparse: bool) -> str | None:
    """The operation that does what the texts say; None if there is none, which is told."""
    majors = ["b_is_k_major"] if by_registers else ["a_is_k_major", "b_is_k_major"]
    names = ("wgmma_prefix", "a_dtype_abbrv", "b_dtype_abbrv", "accum_dtype_abbrv", *majors)
    names += ("sparse_selector",) if sparse else ()
    given = {n: call.value(n) for n in names}
    if any_unknown(list(given.values())) is not None:
        run.complete = False
        return None

    def wrong(name: str, what: str) -> None:
        run.report(BAD_ARGUMENTS, call.span_of(name), callee=call.callee, what=what)

    try:
        a, b, c = (_dtype(given[f"{n}_dtype_abbrv"]) for n in ("a", "b", "accum"))
    except ValueError as error:
        wrong("a_dtype_abbrv", str(error))
        return None
    match = _PREFIX.fullmatch(str(given["wgmma_prefix"]))
    if match is None:
        wrong("wgmma_prefix", f'`wgmma_prefix` is like "m64n128k16", not {given["wgmma_prefix"]!r}')
        return None
    n, k = int(match[1]), int(match[2])
    if not multiplies(a, b, c):
        wrong("accum_dtype_abbrv", f"no wgmma multiplies {a} by {b} into {c}")
        return None
    deep = depth(a) * (2 if sparse else 1)
    if k != deep or n % 8 or not 8 <= n <= 256 or (c == "int32" and n % 16 and n not in (8, 24)):
        sizes = "a multiple of 16, 8 or 24" if c == "int32" else "a multiple of 8"
        what = f"wgmma of {a} is m64nNk{deep} with N {sizes} up to 256, not {match[0]}"
        wrong("wgmma_prefix", what)
        return None
    turned = [not bool(given[name]) for name in majors]
    if any(turned) and element_bits(a) != 16:
        name = majors[turned.index(True)]
        what = f"K must be the contiguous dimension of operands of {a}: only those of 16 bits can be turned"
        wrong(name, what)
        return None
    selector = as_int(given["sparse_selector"]) if sparse else None
    if sparse and selector not in ((0,) if element_bits(a) == 8 else (0, 1)):
        choices = "0" if element_bits(a) == 8 else "0 or 1"
        wrong(
            "sparse_selector", f"`sparse_selector` is {choices} for {a}, not {show(given['sparse_selector'])}"
        )
        return None
    signs = [_negative(run, call, f"scale_in_{x}") for x in "ab"]
    if c == "int32" and True in signs:
        wrong(f"scale_in_{'ab'[signs.index(True)]}", "integers have no negative here: give True")
        return None
    if None in signs:
        return None
    order = (not by_registers and turned[0], turned[-1])
    return one_product(n, (a, b), c, by_registers, order, (bool(signs[0]), bool(signs[1])), selector)


def _mark(op: str) -> Callable[[Run, Bound], None]:
    def emit(run: Run, call: Bound) -> None:
        if run.launch is not None:
            run.emit(Evaluate(tile_ops.call(op, [], span=call.span), call.span))

    return emit


def _hold(run: Run, call: Bound) -> None:
    """Registers of a thread's own array; those of fragments are held by what waits for their products."""
    value, was_complete = call.value("buffer_or_ptr"), run.complete
    if isinstance(value, BufferData):
        value, was_complete = value.buffer, value.was_complete
    run.complete = was_complete
    if isinstance(value, Region):
        value = value.buffer
    if run.launch is None or not isinstance(value, Buffer) or value.scope != "local":
        return
    total, first = as_int(value.shape[0]), as_int(call.value("offset", 0))
    if len(value.shape) != 1 or total is None or first is None or isinstance(value.dtype, Unknown):
        return  # it forbids the compiler something, so doing without it is only less careful
    kind, per = _HELD.get(value.dtype, ("s32", max(1, 32 // element_bits(value.dtype))))
    count = as_int(call.value("num_regs"))
    held = total - first if count is None else min(count * per, total - first)
    if held < per or element_bits(value.dtype) not in (8, 16, 32) or value.dtype in ("int16", "uint16"):
        return
    place = X.address_of(X.BufferLoad(value.var, [X.const(first, "int32")]))
    whole = held // per * (per if kind == "f16" else 1)
    run.emit(Evaluate(tile_ops.call(f"{_HOLD}{whole}_{kind}", [place], span=call.span), call.span))


def without_marks(nodes: list[Node]) -> list[Node]:
    """The statements without the marks that only single products need."""
    kept = []
    for node in nodes:
        if isinstance(node, Evaluate) and call_name(node.value).startswith(
            (tile_ops.WGMMA_ARRIVE, tile_ops.WGMMA_COMMIT, _HOLD)
        ):
            continue
        if isinstance(node, For | Launch | If):
            node.body[:] = without_marks(node.body)
        if isinstance(node, If):
            node.orelse[:] = without_marks(node.orelse)
        kept.append(node)
    return kept


WGMMA_CALLS: Mapping[str, Callable[[Run, Bound], Any]] = {
    "alloc_descriptor": _allocate,
    "alloc_wgmma_desc": _allocate,
    "initialize_wgmma_descriptor": _initialize,
    "increase_descriptor_offset": _increase,
    "ptx_wgmma_ss": _product(False),
    "ptx_wgmma_rs": _product(True),
    "ptx_wgmma_sp_ss": _product(False, True),
    "ptx_wgmma_sp_rs": _product(True, True),
    "warpgroup_arrive": _mark(tile_ops.WGMMA_ARRIVE),
    "warpgroup_commit_batch": _mark(tile_ops.WGMMA_COMMIT),
    "warpgroup_fence_operand": _hold,
}
