"""Classes of the static environment: plain ones, dataclasses, named tuples and enumerations, interpreted."""

from __future__ import annotations

import ast
import enum
import inspect
from typing import Any

from tilelang.frontend.arguments import Argument, bind_arguments
from tilelang.frontend.model import (
    NO_VALUE,
    Auto,
    ClassValue,
    EnumInt,
    EnumText,
    Flow,
    Function,
    Instance,
    JitFunction,
)
from tilelang.frontend.names import bind_name
from tilelang.frontend.python.decorators import PlainDecorator
from tilelang.frontend.python.functions import call_function
from tilelang.frontend.python.kernel_objects import is_own_class, own_class
from tilelang.frontend.python.modelled_modules import modelled_modules
from tilelang.frontend.run import Run
from tilelang.frontend.scope import Scope
from tilelang.ir.values import Unknown

_EMPTY = inspect.Parameter.empty
# What gives classes or objects attributes that are written nowhere.
_ADDS_NAMES = ("setattr", "__getattr", "__dict__", "vars(")


def _as_model(base: Any) -> Any:
    """A class that running Python gave as a base, as the model of it."""
    if is_own_class(base):
        return own_class(base)
    if isinstance(base, type) and issubclass(base, enum.Enum):
        return modelled_modules()["enum"].names.get(base.__name__, base)
    return base


def class_definition(run: Run, node: ast.ClassDef) -> Flow | None:
    """`class`: its body is interpreted in a scope of its own."""
    bases = tuple(map(_as_model, map(run.eval, node.bases)))
    decorators = [run.eval(d) for d in node.decorator_list]
    scope = Scope(run.scope, owner=node.name)
    saved = run.scope, run.at_class_level
    run.scope, run.at_class_level = scope, []
    try:
        run.exec(node.body)
        annotated = run.at_class_level
    finally:
        run.scope, run.at_class_level = saved
    # A class body's names are no closure of its methods.
    for value in scope.names.values():
        inner = value.function if isinstance(value, JitFunction) else value
        if isinstance(inner, Function) and inner.closure is scope:
            inner.closure = saved[0]
    is_data = any(isinstance(d, PlainDecorator) and d.name == "dataclass" for d in decorators)
    is_tuple = any(isinstance(b, ClassValue) and b.name == "NamedTuple" for b in bases)
    is_enum = any(isinstance(b, ClassValue) and b.is_enum for b in bases)
    fields = None
    if is_data or is_tuple:
        inherited = [f for b in bases if isinstance(b, ClassValue) and b.fields for f in b.fields]
        own = [(n, scope.names.get(n, NO_VALUE)) for n in annotated]
        kept = [f for f in inherited if f[0] not in dict(own)]
        fields = (*kept, *own)
    plain = not node.keywords and all(isinstance(d, PlainDecorator) for d in decorators)
    own_names = plain and not any(word in run.source.text for word in _ADDS_NAMES)
    value = ClassValue(node.name, scope.names, bases, fields, is_enum, own_names)
    for method in scope.names.values():
        if isinstance(method, Function) and method.closure is saved[0]:
            method.attributes.setdefault("__class__", value)
    if is_enum:
        _make_members(value)
    bind_name(run, node.name, value, run.source.name_span(node))
    return None


def _make_members(cls: ClassValue) -> None:
    """Values of the class body become members; those that are numbers or texts by their class stay such."""
    kind = _kind_of_members(cls)
    numbers = [1]  # what `auto()` counts on from
    made: dict[Any, Any] = {}
    for name, value in list(cls.names.items()):
        if name.startswith("_") or isinstance(value, Function | ClassValue | JitFunction):
            continue
        if isinstance(value, Auto | enum.auto):
            value = _automatic(cls, name, numbers[0], kind)
        if isinstance(value, int) and not isinstance(value, bool):
            numbers[0] = _next_automatic(cls, value)
        plain = isinstance(value, int | float | str)
        member = made.get(value) if plain else None
        if member is None:
            member = _new_member(cls, name, value, kind)
            if plain:
                made[value] = member  # a second name of the same value is the same member
        cls.names[name] = member


def _new_member(cls: ClassValue, name: str, value: Any, kind: type | None) -> Any:
    if isinstance(value, Unknown):
        return Unknown(f"the value of `{cls.name}.{name}` is not known")
    if kind is int:
        known = isinstance(value, int)
        return EnumInt(cls, name, value) if known else Unknown(f"`{cls.name}.{name}` is no plain number")
    if kind is str:
        known = isinstance(value, str)
        return EnumText(cls, name, value) if known else Unknown(f"`{cls.name}.{name}` is no plain text")
    return Instance(cls, {"name": name, "value": value})


def _kind_of_members(cls: ClassValue) -> type | None:
    """int or str where members are numbers or texts."""
    if cls.name in ("IntEnum", "IntFlag") and not cls.bases:
        return int
    if cls.name == "StrEnum" and not cls.bases:
        return str
    for base in cls.bases:
        kind = (
            base if base in (int, str) else _kind_of_members(base) if isinstance(base, ClassValue) else None
        )
        if kind is not None:
            return kind
    return None


def _is_flag(cls: ClassValue) -> bool:
    return cls.name in ("Flag", "IntFlag") or any(
        isinstance(b, ClassValue) and _is_flag(b) for b in cls.bases
    )


def _automatic(cls: ClassValue, name: str, number: int, kind: type | None) -> Any:
    if "_generate_next_value_" in cls.names:
        return Unknown("the class numbers its members itself")
    return name.lower() if kind is str else number


def _next_automatic(cls: ClassValue, value: int) -> int:
    return 1 << value.bit_length() if _is_flag(cls) else value + 1


def instantiate(
    run: Run, node: ast.Call, cls: ClassValue, args: list[Argument], kwargs: dict[str, Argument]
) -> Any:
    """`Class(...)`."""
    if cls.is_enum:
        return _member_by_value(cls, args)
    instance = Instance(cls, {})
    if cls.fields is not None:
        return _fill_fields(run, node, cls, instance, args, kwargs)
    try:
        init = cls.find("__init__")
    except KeyError:
        return instance if cls.closed else Unknown(f"`{cls.name}` has a base class that is not known")
    if isinstance(init, Function):
        call_function(run, init, [Argument(instance, run.span(node)), *args], kwargs, node, run.span(node))
    return instance


def _member_by_value(cls: ClassValue, args: list[Argument]) -> Any:
    for member in cls.names.values():
        value = member.attributes.get("value") if isinstance(member, Instance) else member
        if isinstance(member, Instance | EnumInt | EnumText) and args and value == args[0].value:
            return member
    return Unknown(f"the member of {cls.name} is not known")


def _fill_fields(
    run: Run,
    node: ast.Call,
    cls: ClassValue,
    instance: Instance,
    args: list[Argument],
    kwargs: dict[str, Argument],
) -> Any:
    assert cls.fields is not None
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [
        inspect.Parameter(n, kind, default=_EMPTY if default is NO_VALUE else default)
        for n, default in cls.fields
    ]
    span = run.span(node)
    made = inspect.Signature(parameters, __validate_parameters__=False)
    bound = bind_arguments(run, made, f"`{cls.name}`", args, kwargs, span, run.span(node.func))
    if isinstance(bound, Unknown):
        return bound
    for name, default in cls.fields:
        given = bound.arguments.get(name)
        instance.attributes[name] = given.value if given is not None else default
    try:
        after = cls.find("__post_init__")
    except KeyError:
        return instance
    if isinstance(after, Function):
        call_function(run, after, [Argument(instance, span)], {}, node, span)
    return instance
