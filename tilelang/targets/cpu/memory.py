"""Where tiles and tensors live on the CPU: flat arrays behind raw pointers, and how an access becomes a flat
one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.ir.tile_ops import seq
from tilelang.ir.values import as_int
from tilelang.layout.formula import evaluate_formula
from tilelang.targets.cpu.exponential import NameValue
from tilelang.targets.cpu.narrow_floats import (
    is_narrow,
    is_packed,
    narrowed,
    packed,
    storage_dtype,
    unpacked,
    widened,
)
from tilelang.targets.cpu.nests import cast, plus

_INT32_MAX = 2**31 - 1


class Memory:
    """The flat buffers that stand for the tile function's tensors and tiles.

    `pointers` are the scratch parameters of the function in order and `bytes` their sizes; one set serves all
    blocks that a thread runs. `stored`: global tensors in an order of their own, as formulas over `sizes`.
    """

    def __init__(
        self,
        poison: bool = False,
        stored: Mapping[str, str] = MappingProxyType({}),
        sizes: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.poison = poison
        self._stored, self._sizes = stored, sizes
        self.pointers: list[ir.Var] = []
        self.bytes: list[Any] = []
        self._flat: dict[Any, Any] = {}
        self._declared: list[Any] = []
        self._registers: list[Any] = []
        self._strides: dict[Any, list[Any]] = {}
        self._wide: dict[Any, bool] = {}

    def parameter(self, buffer: ir.Var) -> ir.Var:
        """The raw pointer that stands for a tensor parameter."""
        pointer, flat = self._pointer(str(buffer.name), buffer)
        self._add(buffer, flat)
        return pointer

    def allocate(self, buffer: ir.Var) -> None:
        """Give a tile a scratch pointer of its own."""
        pointer, flat = self._pointer(str(buffer.name), buffer)
        self.pointers.append(pointer)
        self.bytes.append(_cells(buffer) * item_bytes(storage_dtype(str(buffer.dtype))))
        self._add(buffer, flat)

    def scratch(self, dtype: str, shape: tuple[int, ...]) -> ir.Var:
        """A tile that a lowering needs for itself."""
        buffer = X.decl_buffer(shape, dtype, f"scratch_{len(self.pointers)}", scope="shared")
        self.allocate(buffer)
        return buffer

    def in_registers(self, buffer: ir.Var) -> None:
        """A scalar variable or a small array that LLVM keeps in registers.

        It is allocated at the top of the function: LLVM promotes no allocation inside a loop, and lets the
        stack grow.
        """
        dtype = storage_dtype(str(buffer.dtype))
        flat = X.decl_buffer((_cells(buffer),), dtype, str(buffer.name))
        self._add(buffer, flat)
        self._registers.append(X.AllocBuffer(flat))

    def view(self, buffer: ir.Var, base: ir.Var) -> Any:
        """Another shape over the storage of `base`; returns its declaration."""
        dtype = storage_dtype(str(buffer.dtype))
        flat = X.decl_buffer((_cells(buffer),), dtype, str(buffer.name), data=self._flat[base].data)
        self._add(buffer, flat)
        return X.DeclBuffer(flat, data=self._flat[base].data)

    def at(self, buffer: ir.Var, address: Any) -> Any:
        """A tensor that begins at `address`; returns its declaration."""
        dtype = storage_dtype(str(buffer.dtype))
        kind = ir.PointerType(ir.PrimType(dtype))
        pointer = X.Var(str(buffer.name), kind)
        flat = X.decl_buffer((_cells(buffer),), dtype, str(buffer.name), data=pointer)
        self._add(buffer, flat)
        value = ir.Call(ir.Op.get("tirx.reinterpret"), [address], ret_ty=kind)
        return seq([X.Bind(pointer, value), X.DeclBuffer(flat, data=pointer)])

    def declarations(self) -> list[Any]:
        """The statements that name the flat buffers behind the pointers and allocate the registers."""
        return [*self._declared, *self._registers]

    def load(self, buffer: ir.Var, indices: Sequence[Any], name_value: NameValue | None = None) -> Any:
        """The value of one element (or of a vector of them), unguarded."""
        flat, offset, dtype = self._flat[buffer], self.offset(buffer, indices), str(buffer.dtype)
        if is_packed(dtype):
            return unpacked(X.BufferLoad(flat, [_half(offset)]), offset, dtype, name_value)
        value = X.BufferLoad(flat, [offset])
        if dtype == "bool":
            return cast(value, str(value.ty.dtype).replace("int8", "bool"))
        return widened(value, dtype, name_value) if is_narrow(dtype) else value

    def store(
        self,
        buffer: ir.Var,
        indices: Sequence[Any],
        value: Any,
        span: Any,
        name_value: NameValue | None = None,
    ) -> Any:
        """The store of one element (or of a vector of them), unguarded."""
        flat, offset, dtype = self._flat[buffer], self.offset(buffer, indices), str(buffer.dtype)
        if is_packed(dtype):
            byte = X.BufferLoad(flat, [_half(offset)])
            return X.BufferStore(flat, packed(byte, offset, value, dtype, name_value), [_half(offset)], span)
        if dtype == "bool":
            value = cast(value, str(value.ty.dtype).replace("bool", "int8"))
        elif is_narrow(dtype):
            value = narrowed(value, dtype, name_value)
        return X.BufferStore(flat, value, [offset], span)

    def offset(self, buffer: ir.Var, indices: Sequence[Any]) -> Any:
        """The flat index; 64 bits wide where 32 may not reach the end of the tensor."""
        formula = self._stored.get(str(buffer.name)) if str(buffer.scope()) == "global" else None
        if formula is not None:
            return evaluate_formula(formula, indices, self._sizes)
        total: Any = 0
        if not indices:  # a tensor of one number
            return X.const(0, "int32")
        *outer, last = indices
        for index, stride in zip(outer, self._strides[buffer][:-1], strict=True):
            total = plus(total, _times(self._index(buffer, index), self._index(buffer, stride)))
        step = self._strides[buffer][-1]
        if isinstance(last, X.Ramp):
            base = plus(total, self._index(buffer, last.base))
            return X.Ramp(base, X.const(1, base.ty.dtype), last.lanes)
        return plus(total, _times(self._index(buffer, last), self._index(buffer, step)))

    def _index(self, buffer: ir.Var, value: Any) -> Any:
        wide = self._wide[buffer]
        if isinstance(value, int):
            return X.const(value, "int64" if wide else "int32")
        return cast(value, "int64") if wide else value

    def _pointer(self, name: str, buffer: ir.Var) -> tuple[ir.Var, Any]:
        dtype = storage_dtype(str(buffer.dtype))
        pointer = X.Var(name, ir.PointerType(ir.PrimType(dtype)))
        flat = X.decl_buffer((_cells(buffer),), dtype, name, data=pointer)
        self._declared.append(X.DeclBuffer(flat, data=pointer))
        return pointer, flat

    def _add(self, buffer: ir.Var, flat: Any) -> None:
        self._flat[buffer] = flat
        strides = list(buffer.strides)
        if not strides:
            extents = list(buffer.shape)
            strides = [_product(extents[d + 1 :]) for d in range(len(extents))]
        self._strides[buffer] = strides
        size = as_int(_product(buffer.shape))
        # A tile fits in a cache; only tensors of run-time size, strided or huge ones need wide indices.
        is_tensor = str(buffer.scope()) == "global"
        self._wide[buffer] = is_tensor and (size is None or size > _INT32_MAX or bool(buffer.strides))


def _cells(buffer: ir.Var) -> Any:
    """How many elements of the storage dtype a buffer takes."""
    size = _product(buffer.shape)
    if not is_packed(str(buffer.dtype)):
        return size
    return (size + 1) // 2 if isinstance(size, int) else X.floordiv(size + 1, X.const(2, size.ty.dtype))


def _half(offset: Any) -> Any:
    """The byte in which a packed element lies."""
    dtype = str(offset.ty.dtype)
    two = X.const(2, dtype.partition("x")[0])
    return X.floordiv(offset, X.Broadcast(two, offset.lanes) if isinstance(offset, X.Ramp) else two)


def item_bytes(dtype: str) -> int:
    """Bytes of one element."""
    return max(ir.PrimType(dtype).dtype.bits // 8, 1)


def _product(extents: Sequence[Any]) -> Any:
    numbers = [as_int(e) for e in extents]
    constant = math.prod(n for n in numbers if n is not None)
    total: Any = None
    for extent, number in zip(extents, numbers, strict=True):
        if number is None:
            total = extent if total is None else total * extent
    if total is None:
        return constant
    return total if constant == 1 else total * constant


def _times(a: Any, b: Any) -> Any:
    if as_int(b) == 1:
        return a
    return b if as_int(a) == 1 else a * b
