"""Elements of 4 bits, two in a byte: the flat buffers become bytes, accesses take halves of them.

In:  a flat thread-level function whose buffers may hold int4, uint4 or float4_e2m1fn.
Out: the same over buffers of uint8 with half as many elements, the first of two in the low half (as torch's
     float4_e2m1fn_x2 and the packed int8 tensors that kernels are given). A value of 4 bits is a uint8 with
     its code, 0 to 15; a conversion computes with the code. Neighbouring elements that begin a byte move as
     bytes; an element alone is written to registers as the byte with that half replaced, and to shared and
     global memory by STORE_HALF, which leaves the other half to whoever writes it at the same time.
Not: arithmetic on such numbers (see `widen_narrow`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir, sym
from tvm import tirx as X

from tilelang.arch.features import PACKED_DTYPES
from tilelang.arch.float_formats import FORMATS
from tilelang.arch.target import Target
from tilelang.diagnostics.error import KernelError
from tilelang.diagnostics.rules.dtype import PACKED_USE
from tilelang.ir import tile_ops
from tilelang.ir.simplify import simplify
from tilelang.ir.spans import place_of
from tilelang.ir.tile_ops import seq
from tilelang.passes.walk import constant, index, map_operands, remake, substitute
from tilelang.passes.widen_narrow import widen_narrow

# (address of a byte, 0 or 4: the half's first bit, code): the other half may be written by another thread.
STORE_HALF = "tl.store_half"
# (float32) -> code of the nearest float4_e2m1fn
ENCODE_FLOAT4 = "tl.encode_float4"
_FLOAT4 = "float4_e2m1fn"
# (code) -> the float4 as float32; `_float16` and `_bfloat16` on CUDA.
DECODE_FLOAT4 = "tl.decode_float4"
# decode_int4x2_float16(address, byte): both numbers of a byte to two neighbouring registers, on CUDA.
_HALVES = ("float16", "bfloat16")
_MOVED_BY_THREADS = ("shfl_", "shuffle_xor")
_PRINTED = "print_"


@dataclass(frozen=True)
class Packed:
    """The function, and for each old buffer the one that stands for it now, by the old one's handle."""

    func: X.PrimFunc
    buffers: Mapping[int, ir.Var]

    def of(self, buffer: ir.Var) -> ir.Var:
        """What stands for `buffer`, itself where its elements share no bytes."""
        return self.buffers.get(buffer.__chandle__(), buffer)


def is_packed(dtype: str) -> bool:
    """Whether two elements of `dtype` (a scalar or a vector of it) share a byte."""
    return dtype.partition("x")[0] in PACKED_DTYPES


def pack_halves(func: X.PrimFunc, target: Target) -> Packed:
    """Apply the pass. Raises KernelError for a use of such elements that has no meaning in bytes."""
    if not _has_packed(func):
        return Packed(func, {})
    func = widen_narrow(func)  # what lowering made, such as reductions
    work = _Packing(target)
    params = [work.buffer(p) if X.is_buffer_var(p) else p for p in func.params]
    body = work.statement(func.body)
    attrs = {str(k): func.attrs[k] for k in func.attrs.keys()}  # noqa: SIM118 (a DictAttrs, no dict)
    return Packed(X.PrimFunc(params, body, span=func.span).with_attrs(attrs), work.buffers)


def _has_packed(func: X.PrimFunc) -> bool:
    found: list[Any] = [p for p in func.params if X.is_buffer_var(p) and is_packed(str(p.dtype))]
    kinds = (X.Cast, ir.TensorLoad, X.AllocBuffer, X.BufferStore)
    tvm_ffi.structural_walk(func.body, (kinds, lambda n: found.append(n) if _touches(n) else None))
    return bool(found)


def _touches(node: Any) -> bool:
    if isinstance(node, X.AllocBuffer | X.BufferStore):
        return is_packed(str(node.buffer.dtype))
    return is_packed(_dtype(node))


def _dtype(expr: Any) -> str:
    return str(expr.ty.dtype) if isinstance(getattr(expr, "ty", None), ir.PrimType) else ""


class _Packing:
    def __init__(self, target: Target) -> None:
        self._target = target
        self._analyzer = sym.Analyzer()
        self.buffers: dict[int, ir.Var] = {}
        self._vars: dict[int, ir.Var] = {}  # scalars of 4 bits -> their codes
        self._kept: list[Any] = []  # old buffers and variables, so that their handles stay theirs
        self._span: Any = None

    def buffer(self, old: ir.Var) -> ir.Var:
        """The buffer of bytes that stands for `old`; any other buffer itself."""
        if not is_packed(str(old.dtype)):
            return old
        handle = old.__chandle__()
        if handle not in self.buffers:
            self._kept.append(old)
            count = old.shape[0]
            known = constant(count)
            half: Any = (known + 1) // 2 if known is not None else self._half(count)
            self.buffers[handle] = X.decl_buffer((half,), "uint8", str(old.name), scope=old.scope())
        return self.buffers[handle]

    # Statements

    def statement(self, stmt: Any) -> Any:
        outer, self._span = self._span, stmt.span if stmt.span is not None else self._span
        made = self._made(stmt)
        self._span = outer
        return made

    def _made(self, stmt: Any) -> Any:
        if isinstance(stmt, X.AttrStmt) and stmt.attr_key == "thread_extent":
            self._analyzer.bind(stmt.node.var, ir.Range.from_min_extent(index(0), stmt.value), True)
        if isinstance(stmt, X.AllocBuffer):
            return X.AllocBuffer(self.buffer(stmt.buffer), span=stmt.span)
        if isinstance(stmt, X.DeclBuffer):
            return self._view(stmt)
        if isinstance(stmt, X.BufferStore):
            return self._store(stmt)
        if isinstance(stmt, X.Evaluate):
            return X.Evaluate(self.expression(stmt.value), stmt.span)
        if isinstance(stmt, X.Bind):
            return self._bind(stmt)
        if isinstance(stmt, X.For):
            return self._for(stmt)
        if isinstance(stmt, X.While):
            return X.While(self.expression(stmt.condition), self.statement(stmt.body), stmt.span)
        if isinstance(stmt, X.IfThenElse):
            orelse = self.statement(stmt.else_case) if stmt.else_case is not None else None
            then = self.statement(stmt.then_case)
            return X.IfThenElse(self.expression(stmt.condition), then, orelse, stmt.span)
        return remake(stmt, self.statement)

    def _view(self, stmt: X.DeclBuffer) -> Any:
        offset = stmt.buffer.elem_offset
        if is_packed(str(stmt.buffer.dtype)) and offset is not None and constant(offset) != 0:
            raise self._refused(str(stmt.buffer.dtype), "be viewed from the middle of another tile")
        return X.DeclBuffer(self.buffer(stmt.buffer), data=self.expression(stmt.data), span=stmt.span)

    def _bind(self, stmt: X.Bind) -> Any:
        if not is_packed(_dtype(stmt.value)):
            return X.Bind(stmt.var, self.expression(stmt.value), stmt.span)
        code = X.Var(str(stmt.var.name), "uint8")
        self._kept.append(stmt.var)
        self._vars[stmt.var.__chandle__()] = code
        return X.Bind(code, self.code(stmt.value), stmt.span)

    def _for(self, stmt: X.For) -> Any:
        self._analyzer.bind(stmt.loop_var, ir.Range.from_min_extent(stmt.min, stmt.extent), True)
        pairs = self._pairs(stmt) or self._decoded_pairs(stmt)
        if pairs is not None:
            return pairs
        bounds = [self.expression(stmt.min), self.expression(stmt.extent)]
        notes = dict(stmt.annotations.items())
        body = self.statement(stmt.body)
        return X.For(
            stmt.loop_var, *bounds, stmt.kind, body, annotations=notes, step=stmt.step, span=stmt.span
        )

    def _pairs(self, stmt: X.For) -> Any | None:
        """A loop that fills an array of registers element by element, as one that makes a byte each turn."""
        store, first = stmt.body, self._filled_from(stmt)
        if first is None or not is_packed(str(store.buffer.dtype)) or any(_reads(store.value, store.buffer)):
            return None
        turn = self._turn(stmt)
        low, high = (
            self.code(self._simple(substitute(store.value, {stmt.loop_var: turn * 2 + k}))) for k in (0, 1)
        )
        at = simplify(self._analyzer, self._half(first) + turn)
        body = X.BufferStore(self.buffer(store.buffer), _joined(low, high), [at], store.span)
        return _loop(stmt, turn, body)

    def _decoded_pairs(self, stmt: X.For) -> Any | None:
        """A loop that converts element after element to 16-bit floats, as one that converts bytes."""
        store, first = stmt.body, self._filled_from(stmt)
        if first is None or self._target.kind != "cuda" or str(store.buffer.dtype) not in _HALVES:
            return None
        load: Any = store.value.value if isinstance(store.value, X.Cast) else None
        if not isinstance(load, ir.TensorLoad) or not is_packed(str(load.source.dtype)):
            return None
        begin = self._run_of(load.indices[0], stmt.loop_var)
        if begin is None:
            return None
        turn = self._turn(stmt)
        byte = X.BufferLoad(
            self.buffer(load.source), [simplify(self._analyzer, self._half(begin) + turn)], load.span
        )
        to = X.address_of(X.BufferLoad(store.buffer, [simplify(self._analyzer, first + turn * 2)]))
        short = "float4" if str(load.source.dtype) == _FLOAT4 else str(load.source.dtype)
        name = f"tl.cuda.decode_{short}x2_{store.buffer.dtype}"
        return _loop(stmt, turn, X.Evaluate(tile_ops.call(name, [to, byte], span=store.span), store.span))

    def _filled_from(self, stmt: X.For) -> Any | None:
        """Where a loop begins that stores an even number of neighbours, of which the first is even, to
        registers; None for another.
        """
        store, count = stmt.body, constant(stmt.extent)
        if not isinstance(store, X.BufferStore) or not _in_registers(store.buffer):
            return None
        if count is None or count % 2 or constant(stmt.min) != 0 or constant(stmt.step or 1) != 1:
            return None
        return self._run_of(store.indices[0], stmt.loop_var)

    def _run_of(self, at: Any, var: ir.Var) -> Any | None:
        """The even number `n` of an index `n + var`."""
        first = simplify(self._analyzer, substitute(at, {var: index(0)}))
        step = simplify(self._analyzer, at - first)
        return first if isinstance(step, ir.Var) and step.same_as(var) and self._even(first) else None

    def _turn(self, stmt: X.For) -> ir.Var:
        """The variable of a loop of half as many turns."""
        turn = X.Var(str(stmt.loop_var.name), str(stmt.loop_var.ty.dtype))
        half = index((constant(stmt.extent) or 0) // 2)
        self._analyzer.bind(turn, ir.Range.from_min_extent(index(0), half), True)
        return turn

    def _store(self, stmt: X.BufferStore) -> Any:
        if not is_packed(str(stmt.buffer.dtype)):
            indices = [self.expression(i) for i in stmt.indices]
            return X.BufferStore(stmt.buffer, self.expression(stmt.value), indices, stmt.span)
        at = stmt.indices[0]
        if isinstance(at, X.Ramp):
            return self._wide_store(stmt, at)
        return self._store_one(stmt.buffer, self.expression(at), self.code(stmt.value), stmt.span)

    def _wide_store(self, stmt: X.BufferStore, at: X.Ramp) -> Any:
        """Bytes where the elements begin and end with one, else one element after the other."""
        lanes, base, value = int(at.lanes), at.base, stmt.value
        new = self.buffer(stmt.buffer)
        if constant(at.stride) == 1 and lanes % 2 == 0 and self._even(base):
            to = _bytes_from(self._half(base), lanes // 2)
            if isinstance(value, X.Broadcast) and (code := _constant_code(value.value)) is not None:
                byte: Any = X.const(code | code << 4, "uint8")
                wide = byte if lanes == 2 else X.Broadcast(byte, lanes // 2)
                return X.BufferStore(new, wide, [to], stmt.span)
            if isinstance(value, ir.TensorLoad) and is_packed(str(value.source.dtype)):
                come = value.indices[0]
                if isinstance(come, X.Ramp) and constant(come.stride) == 1 and self._even(come.base):
                    load = X.BufferLoad(
                        self.buffer(value.source), [_bytes_from(self._half(come.base), lanes // 2)]
                    )
                    return X.BufferStore(new, load, [to], stmt.span)
        steps = [
            self._store_one(
                stmt.buffer,
                self._simple(self.expression(base + at.stride * k)),
                self.code(self._simple(_lane(value, k))),
                stmt.span,
            )
            for k in range(lanes)
        ]
        return seq(steps)

    def _store_one(self, buffer: ir.Var, at: Any, code: Any, span: Any) -> Any:
        new = self.buffer(buffer)
        place = self._half(at)
        if constant(buffer.shape[0]) == 1 and _in_registers(buffer):
            return X.BufferStore(new, code, [place], span)
        bit = self._bit(at)
        if not _in_registers(buffer):
            args = [X.address_of(X.BufferLoad(new, [place])), bit, code]
            return X.Evaluate(tile_ops.call(STORE_HALF, args, span=span), span)
        shift = X.Cast("uint8", bit) if constant(bit) is None else X.const(constant(bit), "uint8")
        known = constant(bit)
        kept = X.const(15 if known else 240, "uint8") if known is not None else ~(_byte(15) << shift)
        old = X.BufferLoad(new, [place]) & kept
        return X.BufferStore(new, old | _shifted(code, shift), [place], span)

    # Values

    def expression(self, expr: Any) -> Any:
        """`expr`, whose value is not of 4 bits."""
        if not isinstance(expr, ir.Expr):
            return expr
        if isinstance(expr, X.Cast) and is_packed(_dtype(expr.value)):
            return decoded(self.code(expr.value), _dtype(expr.value), _dtype(expr), self._target.kind)
        if isinstance(expr, ir.Var) and X.is_buffer_var(expr):
            return self.buffer(expr)
        if isinstance(expr, ir.Call):
            return self._call(expr)
        return map_operands(expr, self.expression)

    def _call(self, call: ir.Call) -> Any:
        name = str(call.op.name) if isinstance(call.op, ir.Op) else ""
        if name == "tirx.address_of":
            load = call.args[0]
            at = self.expression(load.indices[0])
            if not is_packed(str(load.source.dtype)):
                return X.address_of(X.BufferLoad(load.source, [at]))
            if not self._even(at):
                raise self._refused(str(load.source.dtype), "be pointed at where it may be half of a byte")
            return X.address_of(X.BufferLoad(self.buffer(load.source), [self._half(at)]))
        packed = [a for a in call.args if is_packed(_dtype(a))]
        if not packed and not is_packed(_dtype(call)):
            return map_operands(call, self.expression)
        if name.rpartition(".")[2].startswith(_PRINTED):
            wide = [X.Cast(_printed(_dtype(a)), a) if is_packed(_dtype(a)) else a for a in call.args]
            return self._call(ir.Call(call.op, wide, attrs=call.attrs, ret_ty=call.ty, span=call.span))
        raise self._refused(_dtype(packed[0] if packed else call), f"be given to {name.rpartition('.')[2]}")

    def code(self, expr: Any) -> Any:
        """The code (uint8) of a scalar of 4 bits."""
        dtype = _dtype(expr)
        if isinstance(expr, X.IntImm | X.FloatImm):
            return X.const(_constant_code(expr), "uint8")
        if isinstance(expr, ir.TensorLoad):
            return self._loaded(expr)
        if isinstance(expr, ir.Var):
            return self._vars[expr.__chandle__()]
        if isinstance(expr, X.Cast):
            source = _dtype(expr.value)
            if not is_packed(source):
                return encoded(self.expression(expr.value), source, dtype)
            code = self.code(expr.value)
            if _FLOAT4 not in (source, dtype) or source == dtype:
                return code
            return encoded(decoded(code, source, "float32", self._target.kind), "float32", dtype)
        if isinstance(expr, X.Select):
            return X.Select(
                self.expression(expr.condition), self.code(expr.true_value), self.code(expr.false_value)
            )
        if isinstance(expr, ir.Call) and isinstance(expr.op, ir.Op):
            name = str(expr.op.name)
            if name.endswith(".if_then_else"):
                condition, yes, no = expr.args
                return X.if_then_else(self.expression(condition), self.code(yes), self.code(no))
            if name.endswith(".likely") or (
                name.endswith(".reinterpret") and is_packed(_dtype(expr.args[-1]))
            ):
                return self.code(expr.args[-1])
            if name.startswith("tl.") and name.rpartition(".")[2].startswith(_MOVED_BY_THREADS):
                args = [self.code(a) if is_packed(_dtype(a)) else self.expression(a) for a in expr.args]
                return ir.Call(expr.op, args, attrs=expr.attrs, ret_ty=ir.PrimType("uint8"), span=expr.span)
            raise self._refused(dtype, f"come from {name.rpartition('.')[2]}")
        raise self._refused(dtype, f"be computed by {type(expr).__name__}")

    def _loaded(self, load: Any) -> Any:
        at = self.expression(load.indices[0])
        byte = X.BufferLoad(self.buffer(load.source), [self._half(at)], load.span)
        if constant(load.source.shape[0]) == 1 and _in_registers(load.source):
            return byte
        bit = self._bit(at)
        known = constant(bit)
        if known is not None:
            return byte >> _byte(4) if known else byte & _byte(15)
        return (byte >> X.Cast("uint8", bit)) & _byte(15)

    # Places

    def _simple(self, expr: Any) -> Any:
        """`expr` with the indices in it simplified."""
        if isinstance(expr, ir.TensorLoad):
            indices = [simplify(self._analyzer, self._simple(i)) for i in expr.indices]
            return X.BufferLoad(expr.source, indices, expr.span)
        return map_operands(expr, self._simple)

    def _even(self, at: Any) -> bool:
        known = constant(at)
        if known is not None:
            return known % 2 == 0
        found = self._analyzer.modular_set(at)
        return int(found.coeff) % 2 == 0 and int(found.base) % 2 == 0

    def _half(self, at: Any) -> Any:
        """The byte of element `at`."""
        return simplify(self._analyzer, X.floordiv(at, _like(at, 2)))

    def _bit(self, at: Any) -> Any:
        """0 or 4 (int32): where element `at` begins in its byte."""
        odd = simplify(self._analyzer, X.floormod(at, _like(at, 2)))
        known = constant(odd)
        if known is not None:
            return index(4 * known)
        if isinstance(
            odd, X.FloorMod
        ):  # the lowest bit is right even where 32 bits are too few for the index
            odd = X.bitwise_and(odd.a, _like(odd.a, 1))
        return X.Cast("int32", odd) * 4 if _dtype(odd) != "int32" else odd * 4

    def _refused(self, dtype: str, what: str) -> KernelError:
        return KernelError([PACKED_USE.at(place_of(self._span), dtype=dtype, what=what, target=self._target)])


def decoded(code: Any, dtype: str, target: str, kind: str) -> Any:
    """The number that a code of `dtype` stands for, as `target`; exact wherever `target` holds it. `kind`: of
    the GPU.
    """
    if dtype == "uint4":
        return code if target == "uint8" else X.Cast(target, code)
    if dtype == "int4":
        signed = X.Cast("int32", code ^ _byte(8)) - 8
        return signed if target == "int32" else X.Cast(target, signed)
    if kind == "cuda" and target in _HALVES:
        return tile_ops.call(f"tl.cuda.decode_float4_{target}", [code], dtype=target)
    single = tile_ops.call(DECODE_FLOAT4, [code], dtype="float32")
    return single if target == "float32" else X.Cast(target, single)


def encoded(value: Any, source: str, dtype: str) -> Any:
    """The code of a number: the low 4 bits of an integer (of a float without its fraction), or the nearest
    float4.
    """
    if dtype == _FLOAT4:
        single = value if source == "float32" else X.Cast("float32", value)
        return tile_ops.call(ENCODE_FLOAT4, [single], dtype="uint8")
    whole = X.Cast("int32", value) if "float" in source else value
    return X.Cast("uint8", whole) & _byte(15)


def _constant_code(expr: Any) -> int | None:
    if isinstance(expr, X.IntImm | X.FloatImm):
        dtype = _dtype(expr)
        return FORMATS[dtype].encode(float(expr.value)) if dtype in FORMATS else int(expr.value) & 15
    return None


def _lane(value: Any, k: int) -> Any:
    """Lane `k` of a vector that is loaded or the same in all lanes."""
    if isinstance(value, X.Broadcast):
        return value.value
    if isinstance(value, X.Ramp):
        return value.base + value.stride * k
    if isinstance(value, ir.TensorLoad):
        return X.BufferLoad(value.source, [_lane(i, k) for i in value.indices])
    return map_operands(value, lambda e: _lane(e, k))


def _reads(value: Any, buffer: ir.Var) -> list[Any]:
    found: list[Any] = []
    tvm_ffi.structural_walk(
        value, (ir.TensorLoad, lambda e: found.append(e) if e.source.same_as(buffer) else None)
    )
    return found


def _loop(stmt: X.For, turn: ir.Var, body: Any) -> Any:
    """The loop with half as many turns."""
    half, notes = index((constant(stmt.extent) or 0) // 2), dict(stmt.annotations.items())
    return X.For(turn, index(0), half, stmt.kind, body, annotations=notes, span=stmt.span)


def _in_registers(buffer: ir.Var) -> bool:
    return str(buffer.scope()).startswith("local")


def _bytes_from(first: Any, count: int) -> Any:
    return first if count == 1 else X.Ramp(first, _like(first, 1), count)


def _printed(dtype: str) -> str:
    return "float32" if dtype == _FLOAT4 else "int32"


def _joined(low: Any, high: Any) -> Any:
    return low | _shifted(high, _byte(4))


def _shifted(code: Any, shift: Any) -> Any:
    return code if constant(shift) == 0 else code << shift


def _byte(value: int) -> Any:
    return X.const(value, "uint8")


def _like(value: Any, number: int) -> Any:
    """`number` in the dtype of an index."""
    return X.const(number, _dtype(value) or "int32")
