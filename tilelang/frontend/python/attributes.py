"""Attribute access: buffers, modules, interpreted classes, and the few attributes of plain Python values."""

from __future__ import annotations

import ast
import enum
import re
import types
from dataclasses import dataclass
from typing import Any

from tvm import ir

from tilelang.diagnostics.problem import Fix
from tilelang.diagnostics.rules.python import (
    UNKNOWN_ATTRIBUTE,
    UNKNOWN_LANGUAGE_NAME,
    UNSUPPORTED_LANGUAGE_NAME,
)
from tilelang.diagnostics.span import Span
from tilelang.frontend.arguments import Argument
from tilelang.frontend.constants import not_given
from tilelang.frontend.deprecated import GONE, RENAMED, gone_problem, note_renamed
from tilelang.frontend.model import (
    NO_VALUE,
    UNBOUND,
    BoundMethod,
    BufferData,
    ClassValue,
    EnumInt,
    EnumText,
    Function,
    Instance,
    JitFunction,
    KernelMethod,
    Late,
    ModuleName,
    ModuleValue,
    NativeMethod,
    ParentsOf,
    PrimFunction,
    RecordFunction,
)
from tilelang.frontend.not_supported import is_not_supported
from tilelang.frontend.operations.builder_values import ValueRange
from tilelang.frontend.operations.layout_calls import LAYOUT_METHODS, LayoutValue
from tilelang.frontend.python.early_reads import declared_dtype
from tilelang.frontend.python.functions import call_function
from tilelang.frontend.python.kernel_objects import is_kernel_object, is_own_class, kernel_attribute
from tilelang.frontend.python.modelled_modules import HostTensor
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import dtype_of_expr
from tilelang.frontend.suggest import hint, nearest, replacement
from tilelang.ir.values import Buffer, Region, Unknown
from tilelang.language.dtypes import DType
from tilelang.language.gmma_descriptors import WGMMADescriptorParams
from tilelang.language.names import LANGUAGE
from tilelang.language.released import instead_of
from tilelang.layout.swizzle_mode import SwizzleMode

_BUFFER_ATTRIBUTES = ("shape", "dtype", "strides", "name", "scope", "ndim", "data", "access_ptr", "buffer")
# Methods of plain values that neither reach other objects nor run code of the user's.
_PLAIN_METHODS: dict[type, frozenset[str]] = {
    str: frozenset(n for n in dir(str) if not n.startswith("_") and n != "format_map"),
    list: frozenset(n for n in dir(list) if not n.startswith("_")),
    dict: frozenset(n for n in dir(dict) if not n.startswith("_")),
    set: frozenset(n for n in dir(set) if not n.startswith("_")),
    tuple: frozenset(("count", "index")),
    range: frozenset(("start", "stop", "step", "count", "index")),
    int: frozenset(("bit_length", "bit_count", "real", "imag", "numerator", "denominator")),
    float: frozenset(("is_integer", "real", "imag", "hex")),
    bytes: frozenset(("decode", "hex")),
}
# Methods of named tuples, by the function that does the same.
TUPLE_METHODS = {"_replace": RecordFunction("replace"), "_asdict": RecordFunction("asdict")}
MUTATING = frozenset(
    [
        "append",
        "extend",
        "insert",
        "remove",
        "pop",
        "clear",
        "sort",
        "reverse",
        "update",
        "setdefault",
        "popitem",
        "add",
        "discard",
    ]
)


@dataclass(frozen=True, eq=False)
class BufferMethod:
    """`buffer.scope`, `buffer.access_ptr`: methods that traced values have."""

    owner: Any
    name: str


@dataclass(frozen=True, eq=False)
class PlainMethod:
    """A method of a plain Python value, not yet called."""

    owner: Any
    name: str


def attribute(run: Run, node: ast.Attribute) -> Any:
    """`owner.name`."""
    owner = run.eval(node.value)
    name = node.attr
    if isinstance(owner, Unknown):
        early = isinstance(node.value, ast.Name) and name == "dtype"
        return (declared_dtype(run, ast.unparse(node.value)) if early else None) or owner
    if isinstance(owner, Late):
        owner = owner.region
    if isinstance(owner, HostTensor):
        return _plain_attribute(owner, name)
    if isinstance(owner, Buffer | Region):
        return _buffer_attribute(run, node, owner)
    if isinstance(owner, ir.Expr):
        return _expression_attribute(run, node, owner)
    if isinstance(owner, WGMMADescriptorParams | SwizzleMode | ValueRange) and hasattr(owner, name):
        found = getattr(owner, name)
        return PlainMethod(owner, name) if callable(found) and not isinstance(found, int) else found
    if isinstance(owner, LayoutValue) and name in LAYOUT_METHODS:
        return BoundMethod(LAYOUT_METHODS[name], owner)
    if isinstance(owner, types.ModuleType) and owner.__name__.startswith("tilelang.language"):
        return _language_name(run, node, owner)
    if isinstance(owner, DType | enum.Enum) or (isinstance(owner, type) and issubclass(owner, enum.Enum)):
        return _own_object(run, node, owner)
    if isinstance(owner, ModuleValue):
        return _module_attribute(run, node, owner)
    if isinstance(owner, ClassValue | Instance) and _is_misspelt(run, owner, name):
        described = f"`{ast.unparse(node.value)}`, of class `{_class_of(owner).name}`,"
        return _missing(run, node, described, _known_names(owner))
    if isinstance(owner, ClassValue):
        return _bound(owner, _class_attribute(owner, name))
    if isinstance(owner, Instance):
        return _instance_attribute(run, node, owner)
    if isinstance(owner, EnumInt | EnumText):
        return _member_attribute(owner, name)
    if isinstance(owner, ParentsOf):
        return _parent_attribute(run, node, owner)
    if isinstance(owner, JitFunction) and name in ("compile", "get_tir", "get_kernel_source"):
        return KernelMethod(owner, name)
    if isinstance(owner, Function | JitFunction | PrimFunction):
        return Unknown(f"`{name}` of a function is not known to the compiler")
    if is_own_class(owner):
        value = getattr(owner, name, NO_VALUE)
    elif is_kernel_object(owner):
        value = kernel_attribute(run, node, owner)
    elif run.environment.static:
        if type(owner) in _PLAIN_METHODS and not hasattr(owner, name):
            kind = type(owner).__name__
            return _missing(run, node, f"`{ast.unparse(node.value)}`, a Python {kind},", dir(owner))
        return _plain_attribute(owner, name)
    else:
        value = run.environment.attribute(run, owner, name)
    if value is not NO_VALUE:
        return value
    return _missing(run, node, f"`{ast.unparse(node.value)}`", dir(owner))


def _name_span(run: Run, node: ast.Attribute) -> Any:
    """The place of the name after the dot."""
    whole = run.span(node)
    column = whole.end_column - len(node.attr)
    return type(whole)(
        whole.path, whole.end_line, max(1, column), whole.end_line, whole.end_column, whole.via
    )


def _buffer_attribute(run: Run, node: ast.Attribute, owner: Buffer | Region) -> Any:
    buffer = owner if isinstance(owner, Buffer) else owner.buffer
    match node.attr:
        case "shape":
            return tuple(owner.shape) if isinstance(owner, Buffer) else tuple(owner.extents)
        case "dtype":
            return buffer.dtype if isinstance(buffer.dtype, Unknown) else DType(buffer.dtype)
        case "strides":
            return buffer.strides or row_major(buffer.shape)
        case "name":
            return buffer.name
        case "ndim":
            return len(buffer.shape)
        case "buffer":
            return buffer
        case "scope" | "access_ptr":
            return BufferMethod(buffer, node.attr)
        case "astype" if isinstance(owner, Region):
            return BufferMethod(owner, "astype")
        case "data":
            was_complete = run.complete
            run.complete = False
            return BufferData("addresses of buffers are not supported", buffer, was_complete)
    if node.attr in LANGUAGE:  # `tile.reshape(...)`, as tensors of other libraries have it
        prefix = run.language_prefix() or "T"
        owned, advice = f"the buffer `{buffer.name}`", f"; use `{prefix}.{node.attr}`"
        return run.report(UNKNOWN_ATTRIBUTE, _name_span(run, node), name=node.attr, owner=owned, hint=advice)
    return _missing(run, node, f"the buffer `{buffer.name}`", _BUFFER_ATTRIBUTES)


def row_major(shape: tuple[Any, ...]) -> Any:
    """The strides of a contiguous tensor."""
    strides: list[Any] = []
    step: Any = 1
    for dim in reversed(shape):
        strides.append(step)
        if isinstance(dim, Unknown):
            return dim
        step = step * dim
    return tuple(reversed(strides))


def _expression_attribute(run: Run, node: ast.Attribute, owner: ir.Expr) -> Any:
    if node.attr == "dtype":
        return DType(dtype_of_expr(owner))
    if node.attr == "astype":
        return BufferMethod(owner, "astype")
    lost = not_given(run, owner)
    if lost is not None:
        return lost
    return _missing(run, node, f"`{ast.unparse(node.value)}`, a value of the kernel,", ("dtype", "astype"))


def _missing(run: Run, node: ast.Attribute, owner: str, known: Any) -> Unknown:
    near = nearest(node.attr, known)
    at = _name_span(run, node)
    fixes = _rename(run, node.attr, near, at)
    return run.report(UNKNOWN_ATTRIBUTE, at, fixes=fixes, owner=owner, name=node.attr, hint=hint(near))


def _rename(run: Run, name: str, near: str | None, at: Span) -> tuple[Fix, ...]:
    """The fix that writes the near name; `getattr(x, name)` has no place for it."""
    return replacement(near, at) if run.text_of(at) == name else ()


def _language_name(run: Run, node: ast.Attribute, module: Any) -> Any:
    renamed = RENAMED.get(node.attr)
    if renamed is not None:
        note_renamed(run, node.attr, _name_span(run, node), ast.unparse(node.value))
    value = getattr(module, node.attr, NO_VALUE)
    if value is NO_VALUE and renamed is not None and renamed.name in LANGUAGE:
        value = getattr(module, renamed.name)
    if value is not NO_VALUE and (node.attr in LANGUAGE or not isinstance(value, types.ModuleType)):
        return value
    return unknown_language_name(run, node.attr, _name_span(run, node), ast.unparse(node.value))


def unknown_language_name(run: Run, name: str, at: Any, prefix: str) -> Unknown:
    """A name that the language does not have, or that this compiler does not implement."""
    if name in GONE:
        run.complete = False
        run.note(gone_problem(name, at, prefix))
        return Unknown(f"{prefix}.{name} is not there any more")
    near = nearest(name, LANGUAGE)
    # A name like none of the language's may be of a later release; where Python runs, there is none.
    if is_not_supported(name) or (near is None and run.environment.static):
        run.complete = False
        run.report(UNSUPPORTED_LANGUAGE_NAME, at, module=prefix, name=name, instead=instead_of(name))
        if not run.context.maybe:
            run.unsupported.append((name, at))
        return Unknown(f"{prefix}.{name} is not supported")
    return run.report(
        UNKNOWN_LANGUAGE_NAME,
        at,
        fixes=_rename(run, name, near, at),
        module=prefix,
        name=name,
        hint="" if near is None else hint(near, f"{prefix}."),
    )


def _own_object(run: Run, node: ast.Attribute, owner: Any) -> Any:
    if not node.attr.startswith("_"):
        value = getattr(owner, node.attr, NO_VALUE)
        if value is not NO_VALUE:
            return value
        if isinstance(owner, enum.EnumMeta):
            return _missing(run, node, f"`{owner.__name__}`", list(owner.__members__))
    return Unknown(f"`{node.attr}` is not known to the compiler")


def _module_attribute(run: Run, node: ast.Attribute, owner: ModuleValue) -> Any:
    value = owner.names.get(node.attr, NO_VALUE)
    if value is not NO_VALUE:
        return value
    if owner.open:
        return ModuleName(f"`{owner.name}.{node.attr}` is not known to the compiler", owner.name, node.attr)
    return _missing(run, node, f"the module `{owner.name}`", owner.names)


def _class_of(owner: ClassValue | Instance) -> ClassValue:
    return owner.cls if isinstance(owner, Instance) else owner


def _known_names(owner: ClassValue | Instance) -> list[str]:
    return [*_class_of(owner).known_names(), *(owner.attributes if isinstance(owner, Instance) else ())]


def _is_misspelt(run: Run, owner: ClassValue | Instance, name: str) -> bool:
    """Whether an object surely lacks an attribute: its class is written out, has one of a similar name, and
    this name is bound nowhere in the file.
    """
    cls = _class_of(owner)
    if not isinstance(_class_attribute(cls, name), Unknown) or name in getattr(owner, "attributes", ()):
        return False
    known = _known_names(owner)
    if name in known or name.startswith("_") or not cls.listed or id(owner) in run.tainted:
        return False
    if nearest(name, known) is None:
        return False
    assigned = rf"^[ \t]*\(?[\w., \[\]*]*\.{name}\b[^=\n]*=(?!=)"
    given = rf"[\"']{name}[\"']|(?<![.\w]){name}\s*[:=](?!=)|{assigned}"
    return re.search(given, run.source.text, re.MULTILINE) is None


def _class_attribute(owner: ClassValue, name: str) -> Any:
    try:
        return owner.find(name)
    except KeyError:
        return Unknown(f"`{owner.name}.{name}` is not known to the compiler")


def _instance_attribute(run: Run, node: ast.Attribute, owner: Instance) -> Any:
    name = node.attr
    if name in owner.attributes:
        return owner.attributes[name]
    value = _class_attribute(owner.cls, name)
    if owner.cls.is_tuple and name in TUPLE_METHODS:
        return BoundMethod(TUPLE_METHODS[name], owner)
    if isinstance(value, Function) and _is_property(value):
        at = run.span(node)
        return call_function(run, value, [Argument(owner, at)], {}, node, at)
    return _bound(owner, value)


def _member_attribute(owner: EnumInt | EnumText, name: str) -> Any:
    """An attribute of an enumeration's member that is a number or a text."""
    if name == "name":
        return owner.name
    plain = int(owner) if isinstance(owner, int) else str(owner)
    if name == "value":
        return plain
    value = _class_attribute(owner.cls, name)
    if isinstance(value, Unknown):
        return _plain_attribute(plain, name)
    return Unknown(f"`{name}` of a member of {owner.cls.name} is not known to the compiler")


def _parent_attribute(run: Run, node: ast.Attribute, owner: ParentsOf) -> Any:
    name = node.attr
    for base in owner.cls.bases:
        if not isinstance(base, ClassValue):
            break
        try:
            value = base.find(name)
        except KeyError:
            continue
        if isinstance(value, Function) and _is_property(value):
            at = run.span(node)
            return call_function(run, value, [Argument(owner.owner, at)], {}, node, at)
        return _bound(owner.owner, value)
    return Unknown(f"`{name}` of the bases of {owner.cls.name} is not known to the compiler")


def _is_property(function: Function) -> bool:
    return bool(function.attributes.get("property") or function.attributes.get("cached_property"))


def _bound(owner: ClassValue | Instance, value: Any) -> Any:
    """A function found in a class, bound to what Python passes as its first argument."""
    if isinstance(value, NativeMethod):
        return BoundMethod(value, owner)
    function = value.function if isinstance(value, JitFunction) else value
    if not isinstance(function, Function) or function.attributes.get("staticmethod"):
        return value
    if function.attributes.get(UNBOUND):
        return value
    if function.attributes.get("classmethod"):
        return BoundMethod(value, owner if isinstance(owner, ClassValue) else owner.cls)
    if isinstance(owner, ClassValue):
        return Unknown("a property of the class") if _is_property(function) else value
    return BoundMethod(value, owner)


def _plain_attribute(owner: Any, name: str) -> Any:
    if isinstance(owner, HostTensor):
        if name == "shape" and owner.shape is not None:
            return owner.shape
        if name == "ndim" and owner.shape is not None:
            return len(owner.shape)
        if name == "dtype" and isinstance(owner.dtype, str):
            return DType(owner.dtype)
    for kind, names in _PLAIN_METHODS.items():
        if type(owner) is kind and name in names:
            value = getattr(owner, name)
            return PlainMethod(owner, name) if callable(value) else value
    return Unknown(f"`{name}` of a {type(owner).__name__} is not known to the compiler")
