"""Values that only the frontend knows: interpreted functions, late elements, frames, tensor types,
escaped names.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tvm import ir

from tilelang.diagnostics.span import Span
from tilelang.frontend.source import Source
from tilelang.ir.values import Buffer, Dim, Region, Unknown

if TYPE_CHECKING:
    from tilelang.frontend.scope import Scope

# Attribute of a function that does not take its object when it is called as a method: one of `@T.macro`.
UNBOUND = "__unbound__"


@dataclass(eq=False, repr=False)
class Function:
    """A function that is interpreted: its definition, the file it stands in and the names around it."""

    name: str
    node: ast.FunctionDef | ast.Lambda
    source: Source
    closure: Scope
    defaults: Mapping[str, Any] = field(default_factory=dict)
    is_macro: bool = False
    call: Any = None  # set by the interpreter: calls it with Python arguments, for `key=` and `functools`
    attributes: dict[str, Any] = field(default_factory=dict)
    qualified_name: str = ""  # of a function of running Python, where classes and functions around it show

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.call(self, list(args), kwargs)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"<function {self.name}>"


@dataclass(eq=False, repr=False)
class PrimFunction:
    """A `@T.prim_func` definition before it is traced. `out_idx`: given to `tilelang.compile`."""

    function: Function
    out_idx: Any = None

    @property
    def name(self) -> str:
        return self.function.name

    def __repr__(self) -> str:
        return f"<kernel {self.name}>"


@dataclass(eq=False, repr=False)
class JitFunction:
    """A kernel or factory as other code of the module sees it: calling it gives an unknown kernel or
    tensor.
    """

    function: Function
    decorators: dict[str, dict[str, Any]] = field(default_factory=dict)  # "jit", "autotune": their options

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """`functools.partial` asks for it; calls are interpreted."""
        raise TypeError(f"{self.function.name} is a kernel of a module that is only read")

    def __repr__(self) -> str:
        return f"<kernel {self.function.name}>"


@dataclass(frozen=True, eq=False)
class KernelMethod:
    """`kernel.compile`, `kernel.get_kernel_source`: calls by host code that give the kernel its values by
    name.
    """

    kernel: JitFunction
    name: str


@dataclass(frozen=True, eq=False)
class HostCall:
    """A call of a kernel's function by host code.

    `value` is what its decorators made of it, `names` are those of the module that have another value at its
    end.
    """

    function: Function
    value: Any
    args: list[Any]
    kwargs: dict[str, Any]
    names: dict[str, Any]


@dataclass(eq=False)
class Frame:
    """What `T.Kernel(...)`, `T.Parallel(...)` and their kin return: the bound arguments with their spans."""

    name: str
    arguments: Mapping[str, Any]
    spans: Mapping[str, Span]
    span: Span


@dataclass(frozen=True)
class BufferData(Unknown):
    """`A.data`, an address: known only as the memory of a tensor, `T.Tensor(shape, dtype, A.data)`."""

    buffer: Buffer
    was_complete: bool  # before this address was asked for


@dataclass(frozen=True, eq=False)
class TensorMapValue:
    """A descriptor for TMA that the author makes: the call that lowering puts a parameter in place of."""

    call: ir.Call
    rank: int
    tensor: str


@dataclass(eq=False)
class TensorType:
    """The value of `T.Tensor(shape, dtype)` as an annotation."""

    shape: tuple[Dim, ...]
    strides: tuple[Dim, ...] | None
    dtype: Any
    scope: str
    span: Span
    pointer: bool = False  # of T.ptr: an address, of which T.make_tensor makes a tensor


@dataclass(eq=False)
class Late:
    """An element `A[i]` kept in a list or passed on: read where it was written, or used as the start of a
    tile.

    `block` and `slot` mark the place in the tree; the read is put there when the value turns out to be
    needed.
    """

    region: Region
    block: list
    slot: Slot
    name: str
    value: Any = None


@dataclass(frozen=True, eq=False)
class NamedSlice(Region):
    """`A[i, 0:4]` bound to a name: a part of `A` to tile operations; a vector, which is read where the name
    was bound, to arithmetic and stores.
    """

    late: Late | None = None


@dataclass(eq=False)
class Slot:
    """A place in the tree that may receive a Bind; removed when the program is finished."""


@dataclass(eq=False)
class Escaped:
    """A name after the loop or branch in which it was bound to a traced value."""

    name: str
    bound_at: Span
    region: str  # "the loop at line 12"
    is_buffer: bool
    changed: bool  # it had another value before
    before: Any = None  # that value
    parallel: bool = False  # the loop is a T.Parallel

    def explanation(self) -> str:
        """Why the value cannot be used and what to do, after the name."""
        if self.is_buffer:
            return f"is allocated inside {self.region} and used after it; allocate it before"
        advice = f"keep a value that changes in `{self.name} = T.alloc_var(dtype, init=...)` and assign to it"
        if self.parallel:
            advice = (
                "keep the values of all iterations in a tile, and fold it with T.reduce_sum or T.reduce_max"
            )
        if self.changed:
            where = f"is rebound inside {self.region} and used after it"
            return f"{where}, where that binding does not hold; {advice}"
        return f"is bound inside {self.region} and used after it, where it does not exist; {advice}"


@dataclass(frozen=True)
class TooLong(Unknown):
    """The value of a module's name that takes too many steps to compute; said where the name is read."""


@dataclass(frozen=True)
class Missing:
    """A local name that is bound only on a path not taken here."""

    bound_at: Span


@dataclass(eq=False)
class ModuleValue:
    """A module of the static environment: modelled by us, or another module of the workspace read as
    source.
    """

    name: str
    names: Mapping[str, Any]
    open: bool = False  # other attributes may exist: they are Unknown, not mistakes
    of_workspace: bool = False  # read as source


@dataclass(frozen=True)
class ModuleName(Unknown):
    """An attribute that the model of a module does not list, and that the module may have."""

    module: str = ""
    name: str = ""


@dataclass(eq=False, repr=False)
class ClassValue:
    """A class of the user's, interpreted."""

    name: str
    names: dict[str, Any]
    bases: tuple[Any, ...]
    fields: tuple[tuple[str, Any], ...] | None = None  # of a dataclass or NamedTuple: names and defaults
    is_enum: bool = False
    own_names: bool = False  # whether its file writes out all names that it and its objects have

    def find(self, name: str) -> Any:
        """The attribute in this class or a known base; raises KeyError."""
        if name in self.names:
            return self.names[name]
        for base in self.bases:
            if isinstance(base, ClassValue):
                try:
                    return base.find(name)
                except KeyError:
                    continue
        raise KeyError(name)

    def members(self) -> list[Any]:
        """Of an enumeration, in order, each once."""
        found: list[Any] = []
        for name, value in self.names.items():
            known = isinstance(value, Instance | EnumInt | EnumText | Unknown)
            if known and not name.startswith("_") and not any(value is m for m in found):
                found.append(value)
        return found

    @property
    def is_tuple(self) -> bool:
        """Whether its objects are named tuples, which Python unpacks and indexes."""
        return any(isinstance(b, ClassValue) and (b.name == "NamedTuple" or b.is_tuple) for b in self.bases)

    @property
    def closed(self) -> bool:
        """Whether every base is known, so that a missing attribute is really missing."""
        return all(isinstance(b, ClassValue) and b.closed for b in self.bases)

    @property
    def listed(self) -> bool:
        """Whether nothing gives the class or its objects attributes that are not written out."""
        return self.own_names and all(
            isinstance(b, ClassValue) and (b.listed or b.is_library) for b in self.bases
        )

    @property
    def is_library(self) -> bool:
        """Whether this stands for a class of Python's own, such as Enum or NamedTuple."""
        return not self.names and not self.bases

    def known_names(self) -> list[str]:
        """The names of the class, of its bases and of its fields."""
        names = [*self.names, *(name for name, _ in self.fields or ())]
        return names + [n for b in self.bases if isinstance(b, ClassValue) for n in b.known_names()]

    def __repr__(self) -> str:
        return f"<class {self.name}>"


@dataclass(eq=False, repr=False)
class Instance:
    """An object of an interpreted class."""

    cls: ClassValue
    attributes: dict[str, Any]

    def items(self) -> tuple[Any, ...] | None:
        """The values of a named tuple in order; None for other objects."""
        return tuple(self.attributes.values()) if self.cls.is_tuple else None

    def __repr__(self) -> str:
        return f"<{self.cls.name} object>"


@dataclass(frozen=True)
class Auto:
    """`enum.auto()` in the body of an enumeration."""


class EnumInt(int):
    """A member of an `IntEnum` or `IntFlag`: a number that has a name."""

    cls: ClassValue
    name: str

    def __new__(cls, owner: ClassValue, name: str, value: int) -> EnumInt:
        made = super().__new__(cls, value)
        made.cls, made.name = owner, name
        return made


class EnumText(str):
    """A member of an enumeration of texts (`class Mode(str, Enum)`, `StrEnum`): a text that has a name."""

    cls: ClassValue
    name: str

    def __new__(cls, owner: ClassValue, name: str, value: str) -> EnumText:
        made = super().__new__(cls, value)
        made.cls, made.name = owner, name
        return made


@dataclass(frozen=True, eq=False)
class ParentsOf:
    """`super()` in a method: what the bases of its class give for an object."""

    cls: ClassValue
    owner: Any


@dataclass(frozen=True)
class NativeMethod:
    """A method of a modelled class: what it does, given the run, the object and the arguments."""

    handler: Callable[[Any, Instance, list[Any], dict[str, Any]], Any]


@dataclass(frozen=True)
class RecordFunction:
    """A function of `dataclasses` that reads or copies objects: `replace`, `asdict`, ..."""

    name: str


@dataclass(frozen=True, eq=False)
class BoundMethod:
    """A method of an interpreted class with its object."""

    function: Function | JitFunction | RecordFunction | NativeMethod
    owner: Any


class _NoDefault:
    def __repr__(self) -> str:
        return "<no value>"


NO_VALUE = _NoDefault()


@dataclass(frozen=True)
class Flow:
    """How a block ended early."""

    kind: str  # "return", "break", "continue", "raise"
    value: Any = None
    span: Span | None = None  # of the statement


# The base class of named tuples, `typing.NamedTuple`.
NAMED_TUPLE = ClassValue("NamedTuple", {}, ())
