"""Packed dtypes: a buffer of `float32x2` becomes one of float32 with twice as many elements.

In:  a tile function, some of whose buffers hold vectors (`float16x2`, `float32x4`, ...).
Out: the same over buffers of the vectors' elements, which lie side by side in the last dimension. A store of
     a vector is a vectorised loop over its lanes, which the targets turn into wide accesses; a name bound to
     a vector is a local array. The lanes of an expression compute independently of each other. A parameter
     of vectors, which torch has no dtype for, takes a tensor of their elements.
Not: what is not element by element: a KernelError says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from tvm import ir
from tvm import tirx as X

from tilelang.arch.dtypes import dtype_info
from tilelang.diagnostics.error import KernelError
from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.ir import tile_ops
from tilelang.ir.build import LOOP_KIND
from tilelang.ir.spans import place_of
from tilelang.ir.tile_ops import seq
from tilelang.passes.walk import index, loads, map_operands, remake, walk, with_body


def split_vectors(func: X.PrimFunc) -> X.PrimFunc:
    """Apply the pass."""
    packed = [p for p in func.params if X.is_buffer_var(p) and _lanes(p.dtype) > 1]
    if not packed and not any(_has_vectors(s) for s in walk(func.body)):
        return func
    return _Split().function(func)


def _has_vectors(stmt: Any) -> bool:
    if isinstance(stmt, X.AllocBuffer | X.DeclBuffer):
        return _lanes(stmt.buffer.dtype) > 1
    if isinstance(stmt, X.Evaluate):
        return _reads_vectors(stmt.value)
    if isinstance(stmt, X.BufferStore | X.Bind):
        return _lanes(stmt.value.ty) > 1 or _reads_vectors(stmt.value)
    return isinstance(stmt, X.IfThenElse | X.While) and _reads_vectors(stmt.condition)


def _reads_vectors(value: Any) -> bool:
    return any(_lanes(load.ty) > 1 for load in loads(value))


def _lanes(dtype: Any) -> int:
    """How many elements a value of `dtype` has; 1 for what is no number."""
    try:
        return dtype_info(str(dtype).removeprefix("T.")).lanes
    except ValueError:
        return 1


def _element(dtype: Any) -> str:
    return str(dtype).removeprefix("T.").rpartition("x")[0]


class _Split:
    def __init__(self) -> None:
        self._buffers: dict[int, ir.Var] = {}  # by the handle of the buffer of vectors
        self._arrays: dict[int, ir.Var] = {}  # by the handle of the name that was bound to a vector
        self._kept: list[ir.Var] = []  # so that handles stay those of their owners

    def function(self, func: X.PrimFunc) -> X.PrimFunc:
        """The whole function. A parameter of vectors takes a tensor of their elements."""
        params = [self._buffer(p) if X.is_buffer_var(p) else p for p in func.params]
        body = self.statement(func.body)
        made = X.PrimFunc(params, body, span=func.span)
        return made.with_attrs(func.attrs) if func.attrs else made

    # Statements

    def statement(self, stmt: Any) -> Any:
        match stmt:
            case X.AllocBuffer():
                new = self._buffer(stmt.buffer)
                return stmt if new is stmt.buffer else X.AllocBuffer(new, span=stmt.span)
            case X.DeclBuffer():
                data = self._scalar(stmt.data, stmt.span)
                return X.DeclBuffer(self._buffer(stmt.buffer), data=data, span=stmt.span)
            case X.BufferStore() if _lanes(stmt.value.ty) > 1:
                return self._store(stmt)
            case X.BufferStore():
                at = [self._scalar(i, stmt.span) for i in stmt.indices]
                return X.BufferStore(stmt.buffer, self._scalar(stmt.value, stmt.span), at, stmt.span)
            case X.Bind() if _lanes(stmt.value.ty) > 1:
                return self._bind(stmt)
            case X.Bind():
                return X.Bind(stmt.var, self._scalar(stmt.value, stmt.span), stmt.span)
            case X.Evaluate():
                return X.Evaluate(self._call(stmt.value, stmt.span), stmt.span)
            case X.For():
                return with_body(stmt, self.statement(stmt.body))
            case X.While():
                return X.While(self._scalar(stmt.condition, stmt.span), self.statement(stmt.body), stmt.span)
            case X.IfThenElse():
                orelse = None if stmt.else_case is None else self.statement(stmt.else_case)
                condition = self._scalar(stmt.condition, stmt.span)
                return X.IfThenElse(condition, self.statement(stmt.then_case), orelse, stmt.span)
        return remake(stmt, self.statement)

    def _store(self, stmt: X.BufferStore) -> Any:
        lanes = _lanes(stmt.value.ty)
        before: list[Any] = []
        value = self._once(stmt.value, before, stmt.span)

        def one(lane: Any) -> Any:
            place = self._place(stmt.buffer, stmt.indices, lane, stmt.span)
            return X.BufferStore(
                self._buffer(stmt.buffer), self._lane(value, lane, stmt.span), place, stmt.span
            )

        return seq([*before, _each(lanes, one, stmt.span)])

    def _bind(self, stmt: X.Bind) -> Any:
        lanes = _lanes(stmt.value.ty)
        array = X.decl_buffer((lanes,), _element(stmt.value.ty), str(stmt.var.name), scope="local")
        before: list[Any] = []
        value = self._once(stmt.value, before, stmt.span)

        def one(lane: Any) -> Any:
            return X.BufferStore(array, self._lane(value, lane, stmt.span), [lane], stmt.span)

        made = [*before, X.AllocBuffer(array, span=stmt.span), _each(lanes, one, stmt.span)]
        self._arrays[stmt.var.__chandle__()] = array
        self._kept.append(stmt.var)
        return seq(made)

    def _call(self, call: Any, span: Any) -> Any:
        """A call for its effect: of the tile operations, those that move or fill element by element."""
        regions = [a for a in getattr(call, "args", ()) if isinstance(a, ir.TensorRegion)]
        packed = {str(r.source.dtype) for r in regions if _lanes(r.source.dtype) > 1}
        if not packed:
            return self._scalar(call, span)
        dtypes = {str(r.source.dtype) for r in regions}
        if len(dtypes) > 1 or not (
            tile_ops.is_call(call, tile_ops.COPY) or tile_ops.is_call(call, tile_ops.FILL)
        ):
            name = str(call.op.name).removeprefix("tl.")
            self._refuse(f"T.{name}", " and ".join(sorted(dtypes)), span)
        args = [
            self._region(a) if isinstance(a, ir.TensorRegion) else self._lane(a, index(0), span)
            for a in call.args
        ]
        return ir.Call(call.op, args, attrs=call.attrs, ret_ty=call.ty, span=call.span)

    # Buffers

    def _buffer(self, buffer: ir.Var) -> ir.Var:
        """The buffer of elements that stands for `buffer`; itself if it holds no vectors."""
        lanes, handle = _lanes(buffer.dtype), buffer.__chandle__()
        if lanes == 1:
            return buffer
        if handle not in self._buffers:
            *outer, last = buffer.shape
            strides = [s * lanes for s in buffer.strides[:-1]] + [index(1)] if buffer.strides else None
            if buffer.strides and not _is_one(buffer.strides[-1]):
                self._refuse("T.view", f"{buffer.dtype} with a stride in the last dimension", buffer.span)
            self._buffers[handle] = X.decl_buffer(
                [*outer, last * lanes],
                _element(buffer.dtype),
                str(buffer.name),
                strides=strides,
                scope="local" if buffer.scope() == "local.var" else buffer.scope(),
            )
            self._kept.append(buffer)
        return self._buffers[handle]

    def _place(self, buffer: ir.Var, indices: Sequence[Any], lane: Any, span: Any) -> list[Any]:
        """Where lane `lane` of the vector at `indices` lies in the buffer of elements."""
        *outer, last = indices
        outer = [self._scalar(i, span) for i in outer]
        if isinstance(last, X.Ramp):
            return [*outer, self._scalar(last.base, span) + lane * last.stride]
        return [*outer, self._scalar(last, span) * _lanes(buffer.dtype) + lane]

    def _region(self, region: Any) -> Any:
        *outer, last = region.region
        lanes = _lanes(region.source.dtype)
        mins, extents = [r.min for r in outer], [r.extent for r in outer]
        return tile_ops.region(
            self._buffer(region.source), [*mins, last.min * lanes], [*extents, last.extent * lanes]
        )

    # Expressions

    def _once(self, value: Any, before: list[Any], span: Any) -> Any:
        """`value` with what it repeats over all lanes read once, before a lane is written."""
        if isinstance(value, X.Broadcast):
            if not loads(value.value):
                return value
            name = X.Var("same", str(value.value.ty).removeprefix("T."))
            before.append(X.Bind(name, self._scalar(value.value, span), span))
            return X.Broadcast(name, value.lanes)
        if _is_reinterpret(value) and _lanes(value.args[-1].ty) == 1:
            bits = _unsigned(self._scalar(value.args[-1], span))
            name = X.Var("bits", bits.ty)
            before.append(X.Bind(name, bits, span))
            return X.reinterpret(str(value.ty).removeprefix("T."), name)
        if isinstance(value, ir.TensorLoad):
            return value
        return map_operands(value, lambda e: self._once(e, before, span) if _lanes(e.ty) > 1 else e)

    def _lane(self, value: Any, lane: Any, span: Any) -> Any:
        """One lane of a vector; a scalar as it is."""
        if _lanes(value.ty) == 1:
            return self._scalar(value, span)
        match value:
            case ir.TensorLoad():
                place = self._place(value.source, value.indices, lane, span)
                return X.BufferLoad(self._buffer(value.source), place, value.span)
            case X.Broadcast():
                return self._scalar(value.value, span)
            case X.Ramp():
                return self._scalar(value.base, span) + lane * value.stride
            case X.Cast():
                return X.Cast(_element(value.ty), self._lane(value.value, lane, span), value.span)
            case ir.Var():
                return X.BufferLoad(self._arrays[value.__chandle__()], [lane])
            case X.Shuffle():
                *others, last = [self._element(value.vectors, int(i.value), span) for i in value.indices]
                for number, one in reversed(list(enumerate(others))):
                    last = X.Select(X.EQ(lane, index(number)), one, last)
                return last
            case ir.Call() if _is_reinterpret(value):
                return self._lane_of_bits(value, lane, span)
            case ir.Call():
                name = str(getattr(value.op, "name", value.op))
                if not name.startswith(("tirx.", "prim.")) or name in _WHOLE:
                    self._refuse(name.rpartition(".")[2], str(value.ty), span)
                args = [self._lane(a, lane, span) if isinstance(a, ir.Expr) else a for a in value.args]
                return ir.Call(value.op, args, attrs=value.attrs, ret_ty=_element(value.ty), span=value.span)
        return map_operands(value, lambda e: self._lane(e, lane, span))

    def _scalar(self, value: Any, span: Any) -> Any:
        """`value`, which is no vector, over the buffers of elements."""
        if not isinstance(value, ir.Expr):
            return value
        if isinstance(value, ir.Call) and str(getattr(value.op, "name", "")) == "tirx.address_of":
            load = value.args[0]
            place = [self._scalar(i, span) for i in load.indices]
            if _lanes(load.source.dtype) > 1:
                place = self._place(load.source, load.indices, index(0), span)
            return X.address_of(X.BufferLoad(self._buffer(load.source), place, load.span))
        if isinstance(value, ir.Var):
            return self._buffer(value) if X.is_buffer_var(value) else value
        if isinstance(value, X.Shuffle) and len(value.indices) == 1:
            return self._element(value.vectors, int(value.indices[0].value), span)
        if _lanes(value.ty) > 1:
            self._refuse("an operation on single elements", str(value.ty), span)
        if _is_reinterpret(value) and _lanes(value.args[-1].ty) > 1:
            return self._all_bits(value, span)
        return map_operands(value, lambda e: self._scalar(e, span))

    def _lane_of_bits(self, value: Any, lane: Any, span: Any) -> Any:
        """One lane of what T.reinterpret makes: the first lies in the lowest bits."""
        operand, element = value.args[-1], _element(value.ty)
        if _lanes(operand.ty) == _lanes(value.ty):
            return X.reinterpret(element, self._lane(operand, lane, span))
        if _lanes(operand.ty) > 1:
            self._refuse("T.reinterpret", f"{operand.ty} as {value.ty}", span)
        whole, width = _unsigned(self._scalar(operand, span)), dtype_info(element).bits
        shift = X.Cast(whole.ty, lane * width)
        part = X.Cast(
            f"uint{width}", X.bitwise_and(X.shift_right(whole, shift), X.const((1 << width) - 1, whole.ty))
        )
        return part if element == f"uint{width}" else X.reinterpret(element, part)

    def _all_bits(self, value: Any, span: Any) -> Any:
        """A number of the bits of all lanes."""
        operand, dtype = value.args[-1], str(value.ty).removeprefix("T.")
        width, total = dtype_info(_element(operand.ty)).bits, dtype_info(dtype).bits
        parts = [
            X.Cast(f"uint{total}", _unsigned(self._lane(operand, index(lane), span)))
            for lane in range(_lanes(operand.ty))
        ]
        bits = parts[0]
        for lane, part in enumerate(parts[1:], 1):
            bits = X.bitwise_or(bits, X.shift_left(part, X.const(lane * width, part.ty)))
        return bits if dtype == f"uint{total}" else X.reinterpret(dtype, bits)

    def _element(self, vectors: Sequence[Any], number: int, span: Any) -> Any:
        """Element `number` of vectors that stand side by side."""
        for vector in vectors:
            if number < _lanes(vector.ty):
                return self._lane(vector, index(number), span)
            number -= _lanes(vector.ty)
        raise AssertionError("the frontend has checked the numbers of the elements")

    def _refuse(self, callee: str, dtype: str, span: Any) -> NoReturn:
        what = (
            f"{dtype} is not supported here: vectors are copied, filled and computed with lane by lane only"
        )
        raise KernelError([BAD_ARGUMENTS.at(place_of(span), callee=callee, what=what)])


# Functions of TIRX whose lanes are not those of their operands.
_WHOLE = frozenset({"tirx.reinterpret", "tirx.call_extern", "tirx.call_pure_extern", "tirx.address_of"})


def _is_reinterpret(value: Any) -> bool:
    return isinstance(value, ir.Call) and str(getattr(value.op, "name", "")).endswith(".reinterpret")


def _unsigned(value: Any) -> Any:
    """The bits of a number as an unsigned one of its width."""
    info = dtype_info(str(value.ty).removeprefix("T."))
    return value if info.kind == "uint" else X.reinterpret(f"uint{info.bits}", value)


def _is_one(value: Any) -> bool:
    return isinstance(value, X.IntImm) and int(value.value) == 1


def _each(lanes: int, one: Callable[[Any], Any], span: Any) -> Any:
    lane = X.Var("lane", "int32")
    kind = X.ForKind.VECTORIZED
    return X.For(
        lane, index(0), index(lanes), kind, one(lane), annotations={LOOP_KIND: "vectorized"}, span=span
    )
