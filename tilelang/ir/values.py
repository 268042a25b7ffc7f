"""What the frontend computes with: sizes and scalars, buffers and regions, and what it could not find out.

A scalar is a Python number, a TIRX expression, or `Unknown`. An `Unknown` operand makes the result `Unknown`
and never causes a follow-up problem.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Literal

# TVM must print CUDA without looking for nvcc; read once when its compiler library is loaded.
os.environ.setdefault("TVM_COMPILE_FORCE_FALLBACK", "1")

from tvm import ir
from tvm import tirx as X

from tilelang.diagnostics.span import Span

Scope = Literal["global", "shared", "local.fragment", "local.reducer", "local", "local.var"]

SCOPE_NAMES: dict[str, str] = {
    "global": "global",
    "shared": "shared",
    "local.fragment": "fragment",
    "local.reducer": "reducer",
    "local": "local",
    "local.var": "var",
}


@dataclass(frozen=True)
class Unknown:
    """A value the frontend cannot know, and why, in words for the kernel author."""

    reason: str

    def __bool__(self) -> bool:
        raise TypeError("an Unknown has no truth value; test with isinstance")


Value = Any  # bool | int | float | ir.Expr | Unknown
Dim = Any  # int | ir.Expr | Unknown


@dataclass(eq=False)
class Buffer:
    """A tensor argument, an output, an allocated tile or a scalar variable (`local.var`, shape `(1,)`).

    `span` is the allocation call or the annotation, `name_span` the name that is bound. `view_of` is set for
    `T.reshape` and `T.view`: same storage as that buffer; `address` where the kernel knows where it begins.
    Two buffers are equal only if they are one object.
    """

    name: str
    scope: str
    shape: tuple[Dim, ...]
    dtype: str | Unknown
    span: Span
    name_span: Span
    strides: tuple[Dim, ...] | None = None
    role: Literal["parameter", "output", "workspace"] | None = None  # workspace: of T.alloc_global
    view_of: Buffer | None = None
    init: Value = None  # of a `local.var`: the start value, None for zero
    reducer: str | None = None  # of a `local.reducer`: what iterations do with it, "sum", "max", ...
    is_pointer: bool = False  # a parameter that is an address: T.make_tensor says what is there
    made: bool = False  # whether it has
    address: ir.Var | None = None  # int64, of T.make_tensor_from_addr
    static: bool = False  # of a shared tile: whether the author asked for the scope "shared" by name
    _var: ir.Var | None = field(default=None, repr=False)

    @property
    def known(self) -> bool:
        """Whether dtype and every extent are known well enough to build IR with."""
        unknown_base = self.view_of is not None and not self.view_of.known
        return not (
            unknown_base or isinstance(self.dtype, Unknown) or any(isinstance(d, Unknown) for d in self.shape)
        )

    @property
    def var(self) -> ir.Var:
        """The TIRX variable that stands for this buffer; made once. Raises ValueError if not `known`."""
        if self._var is None:
            if not self.known:
                raise ValueError(f"{self.name} has no known shape or dtype")
            data = self.view_of.var.data if self.view_of is not None else None
            self._var = X.decl_buffer(
                list(self.shape),
                str(self.dtype),
                self.name,
                data=data,
                strides=list(self.strides) if self.strides else None,
                scope=self.scope,
            )
        return self._var

    @property
    def empty(self) -> bool:
        """Whether it surely has no element, as where an option of the kernel is off."""
        return any(as_int(d) == 0 for d in self.shape)

    @property
    def storage(self) -> Buffer:
        """The buffer whose memory this one names (itself, unless it is a view)."""
        return self.view_of.storage if self.view_of is not None else self


@dataclass(frozen=True)
class Index:
    """One subscript entry: a point (`extent` None) or a slice of `extent` elements from `start`."""

    start: Value
    extent: Value | None
    span: Span
    written: int | None = None  # a negative constant, which counts from the end
    ramp: bool = False  # a T.Ramp: the elements are one vector, wherever they are read


@dataclass(frozen=True, eq=False)
class Region:
    """A buffer, or a part of it. `indices` is None for the whole buffer.

    `A[i, j]` as the operand of a tile operation means "starting at": its extents come from the other operand.
    """

    buffer: Buffer
    indices: tuple[Index, ...] | None
    span: Span

    @property
    def whole(self) -> bool:
        return self.indices is None

    @property
    def is_point(self) -> bool:
        """All entries are points: in a tile operation the start of a tile, elsewhere one element."""
        return self.indices is not None and all(i.extent is None for i in self.indices)

    @property
    def starts(self) -> tuple[Value, ...]:
        return (
            tuple(0 for _ in self.buffer.shape)
            if self.indices is None
            else tuple(i.start for i in self.indices)
        )

    @property
    def extents(self) -> tuple[Value, ...]:
        """Slice lengths; 1 for points; the shape for a whole buffer."""
        if self.indices is None:
            return self.buffer.shape
        return tuple(1 if i.extent is None else i.extent for i in self.indices)

    @property
    def fits_rank(self) -> bool:
        """Whether the subscript has one entry per dimension."""
        return self.indices is None or len(self.indices) == len(self.buffer.shape)

    def text(self) -> str:
        """`A[by * 128, ko * 32]` or `A_shared`: how a message names the operand."""
        if self.indices is None:
            return self.buffer.name
        parts = (
            show(i.start) if i.extent is None else f"{show(i.start)}:{show(add(i.start, i.extent))}"
            for i in self.indices
        )
        return f"{self.buffer.name}[{', '.join(parts)}]"


def same_size(a: Value, b: Value) -> bool:
    """Whether two sizes are one number, or one object."""
    number = as_int(a)
    return a is b if number is None else number == as_int(b)


def as_int(value: Value) -> int | None:
    """The number, if the value is a compile-time integer."""
    if isinstance(value, int):
        return int(value)
    # By its name: `isinstance` on nodes costs a microsecond, and this is asked thousands of times per check.
    if type(value).__name__ == "IntImm":
        return int(value.value)  # type: ignore[union-attr]
    return None


def add(a: Value, b: Value) -> Value:
    """`a + b`, Unknown if either is."""
    for v in (a, b):
        if isinstance(v, Unknown):
            return v
    return a + b


def show(value: Value) -> str:
    """How a message or a hover writes a size: a number, the expression, or `?`."""
    if isinstance(value, Unknown):
        return "?"
    number = as_int(value)
    return str(value) if number is None else str(number)


def dtype_of(value: Value) -> str | None:
    """The dtype of a traced value (`"float16"`), None for Python numbers and Unknown."""
    if isinstance(value, ir.Expr):
        return str(value.ty.dtype) if hasattr(value.ty, "dtype") else str(value.ty)
    return None
