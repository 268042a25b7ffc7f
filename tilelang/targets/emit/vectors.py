"""Accesses to several neighbouring elements: wide moves where lanes only move, else loops over the lanes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import tvm_ffi
from tvm import ir
from tvm import tirx as X

from tilelang.targets.emit.dialect import PairConversion
from tilelang.targets.emit.expressions import EmitError, Expressions, Storage
from tilelang.targets.emit.names import Names
from tilelang.targets.emit.pair_conversions import is_even, pair_conversion, pair_store


class Vectors:
    """Prints them with the expressions and names of a kernel; `put` takes each line."""

    def __init__(self, expressions: Expressions, names: Names, put: Callable[[str], None]) -> None:
        self._e, self._names, self._put = expressions, names, put

    def store(self, target: Storage, index: Any, value: Any) -> None:
        """`target[base : base + n] = value`: wide moves where lanes only move, else a loop over lanes."""
        lanes = int(index.lanes)
        if _unit_stride(index) and _is_zero(value):
            self._move(target, index.base, None, None, lanes)
            return
        moved = type(value) is ir.TensorLoad and self._e.dtype(value) == target.dtype
        if moved and _unit_stride(index) and _unit_stride(value.indices[0]):
            first: Any = value.indices[0]
            self._move(target, index.base, self._e.storage(value.source), first.base, lanes)
            return
        self._hoist_loads(value, lanes)
        through_memory = _unit_stride(index) and not target.scope.startswith("local")
        result = (
            Storage(self._names.new(f"{target.name}_vec"), target.dtype, "local")
            if through_memory
            else target
        )
        if through_memory:
            self._put(f"{self._aligned(target.dtype, lanes)} {result.name}[{lanes}];")
        pair = self._pair(target, index if not through_memory else None, value, lanes)
        lane = self._e.lane = self._names.new("v")
        left = f"{result.name}[{lane if through_memory else self._e.index(target, index)}]"
        right = self._e.show(value if pair is None else value.value)
        self._e.lane = None
        self._e.hoisted.clear()  # the same expression elsewhere may read other values
        self._put("#pragma unroll")
        step = f"++{lane}" if pair is None else f"{lane} += 2"
        self._put(f"for (int {lane} = 0; {lane} < {lanes}; {step}) {{")
        self._put(f"  {left} = {right};" if pair is None else f"  {pair_store(pair, left, right)}")
        self._put("}")
        if through_memory:
            self._move(target, index.base, result, X.const(0, "int32"), lanes)

    def _pair(self, target: Storage, index: Any, value: Any, lanes: int) -> PairConversion | None:
        """How the lanes are converted two by two; index: where they are stored, None for an array of them."""
        found = pair_conversion(self._e, target, value)
        if found is None or lanes % 2:
            return None
        load: Any = value.value
        source = self._e.storage(load.source)
        ramps = [] if load.__chandle__() in self._e.hoisted else [load.indices[0]]
        ramps += [] if index is None else [index]
        if any(not _unit_stride(ramp) or not is_even(ramp.base) for ramp in ramps):
            return None
        source.vector = target.vector = True
        return found

    def _hoist_loads(self, value: Any, lanes: int) -> None:
        """Read consecutive elements from memory at once, into arrays that the loop over lanes indexes."""
        for load in _vector_loads(value):
            source = self._e.storage(load.source)
            if source.scope.startswith("local") or load.__chandle__() in self._e.hoisted:
                continue
            name = self._names.new(f"{source.name}_vec")
            self._put(f"{self._aligned(source.dtype, lanes)} {name}[{lanes}];")
            zero = X.const(0, "int32")
            self._move(Storage(name, source.dtype, "local"), zero, source, load.indices[0].base, lanes)
            self._e.hoisted[load.__chandle__()] = name

    def _aligned(self, dtype: str, lanes: int) -> str:
        return f"{self._e.dialect.align.format(min(16, _bytes(dtype) * lanes))} {self._e.type_name(dtype)}"

    def _move(self, target: Storage, to: Any, source: Storage | None, base: Any, lanes: int) -> None:
        """Copy consecutive elements, or zeros, with the widest types that cover them exactly."""
        target.vector = True
        if source is not None:
            source.vector = True
        size, done = _bytes(target.dtype), 0
        while done < lanes:
            width = next((w for w in (16, 8, 4, 2, 1) if w <= (lanes - done) * size and w % size == 0), None)
            if width is None:
                raise EmitError(f"{lanes} elements of {target.dtype} cannot be moved at once")
            wide = self._e.dialect.vector_types[width]
            self._e.used_types.add(wide)
            left = f"*({self._e.raw_pointer(wide, target.scope)})&{self._at(target, to, done)}"
            if source is None:
                right = self._e.dialect.zero_vector.format(type=wide) if width > 4 else "0"
            else:
                right = (
                    f"*({self._e.raw_pointer(wide, source.scope, const=True)})&{self._at(source, base, done)}"
                )
            self._put(f"{left} = {right};")
            done += width // size

    def _at(self, s: Storage, base: Any, done: int) -> str:
        return f"{s.name}[{self._e.index(s, base + done if done else base)}]"


def _unit_stride(ramp: Any) -> bool:
    return type(ramp) is X.Ramp and type(ramp.stride) is X.IntImm and ramp.stride.value == 1


def _is_zero(value: Any) -> bool:
    """Whether all lanes are the constant whose bits are all zero."""
    if type(value) is not X.Broadcast:
        return False
    lane = value.value
    if type(lane) is X.FloatImm:
        return lane.value == 0 and math.copysign(1, lane.value) > 0
    return type(lane) is X.IntImm and lane.value == 0


def _vector_loads(value: Any) -> list[Any]:
    """The loads in `value` that read consecutive elements."""
    found: list[Any] = []
    tvm_ffi.structural_walk(value, (ir.TensorLoad, found.append))
    return [x for x in found if _unit_stride(x.indices[0])]


def _bytes(dtype: str) -> int:
    digits = "".join(c for c in dtype.split("_")[0] if c.isdigit())
    return max(1, int(digits) // 8) if digits else 1
