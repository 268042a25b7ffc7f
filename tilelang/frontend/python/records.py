"""`dataclasses.replace`, `asdict`, `astuple` and `fields` on interpreted objects."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tilelang.frontend.arguments import Argument
from tilelang.frontend.model import NAMED_TUPLE, NO_VALUE, ClassValue, Instance, RecordFunction
from tilelang.frontend.python.classes import instantiate
from tilelang.frontend.run import Run
from tilelang.ir.values import Unknown

_FIELD = ClassValue("Field", {}, ())


def call_record(
    run: Run, node: ast.Call, function: RecordFunction, args: list[Argument], kwargs: dict[str, Argument]
) -> Any:
    """`dataclasses.replace(object, name=value)` and its kin."""
    if function.name == "namedtuple":
        return _named_tuple(args, kwargs)
    record = args[0].value if args else Unknown("nothing is given")
    if isinstance(record, Unknown):
        return record
    if function.name == "fields" and isinstance(record, ClassValue) and record.fields is not None:
        return tuple(Instance(_FIELD, {"name": name}) for name, _ in record.fields)
    if not isinstance(record, Instance) or record.cls.fields is None:
        return Unknown(f"`{function.name}` of this object is not known to the compiler")
    if function.name == "replace":
        return _replaced(run, node, record, kwargs)
    return _READERS[function.name](record)


def _named_tuple(args: list[Argument], kwargs: dict[str, Argument]) -> Any:
    """`collections.namedtuple("Tile", ["m", "n"])`, also `"m n"`."""
    lost = Unknown("the fields of the named tuple are not known")
    name = args[0].value if args else None
    given = args[1].value if len(args) > 1 else None
    names = given.replace(",", " ").split() if isinstance(given, str) else given
    defaults = kwargs["defaults"].value if "defaults" in kwargs else ()
    if (
        not isinstance(name, str)
        or not isinstance(names, list | tuple)
        or not isinstance(defaults, list | tuple)
    ):
        return lost
    if not all(isinstance(n, str) for n in names) or len(defaults) > len(names):
        return lost
    values = [*[NO_VALUE] * (len(names) - len(defaults)), *defaults]
    return ClassValue(name, {}, (NAMED_TUPLE,), tuple(zip(names, values, strict=True)))


def _replaced(run: Run, node: ast.Call, record: Instance, changes: dict[str, Argument]) -> Any:
    at = run.span(node)
    names = [name for name, _ in record.cls.fields or ()]
    kept = {n: Argument(record.attributes[n], at, n, at) for n in names if n in record.attributes}
    return instantiate(run, node, record.cls, [], {**kept, **changes})


def _as_dict(record: Instance) -> Any:
    return {name: _deep(record.attributes.get(name), _as_dict) for name, _ in record.cls.fields or ()}


def _as_tuple(record: Instance) -> Any:
    return tuple(_deep(record.attributes.get(name), _as_tuple) for name, _ in record.cls.fields or ())


def _deep(value: Any, convert: Callable[[Instance], Any]) -> Any:
    if isinstance(value, Instance) and value.cls.fields is not None:
        return convert(value)
    if isinstance(value, list):
        return [_deep(v, convert) for v in value]
    if isinstance(value, tuple):
        return tuple(_deep(v, convert) for v in value)
    return {k: _deep(v, convert) for k, v in value.items()} if isinstance(value, dict) else value


def _fields(record: Instance) -> Any:
    return tuple(Instance(_FIELD, {"name": name}) for name, _ in record.cls.fields or ())


def _is_record(record: Instance) -> Any:
    return True


_READERS: dict[str, Callable[[Instance], Any]] = {
    "asdict": _as_dict,
    "astuple": _as_tuple,
    "fields": _fields,
    "is_dataclass": _is_record,
}
