"""When objects of interpreted classes are equal, as far as their classes tell."""

from __future__ import annotations

import ast
from typing import Any

from tvm import ir

from tilelang.frontend.model import Instance
from tilelang.frontend.scalars import any_traced, any_unknown
from tilelang.ir.values import Unknown


def all_plain(*values: Any) -> bool:
    """Values that Python compares and prints without code of the user's."""
    return all(isinstance(v, ir.Expr | bool | int | float | str | list | tuple | type(None)) for v in values)


def compare_objects(kind: type[ast.cmpop], left: Any, right: Any) -> Any:
    """Comparison where one side is interpreted: equal objects are known, most others are not."""
    lost = Unknown("a comparison of these objects is not known to the compiler")
    if kind in (ast.In, ast.NotIn) and isinstance(right, list | tuple | set | dict):
        answers = [compare_objects(ast.Eq, left, item) for item in right]
        found: Any = any(a is True for a in answers)
        if not found and any(isinstance(a, Unknown) for a in answers):
            return lost
        return found is (kind is ast.In)
    if kind not in (ast.Eq, ast.NotEq):
        return lost
    same = left is right
    if not same and isinstance(left, Instance) and isinstance(right, Instance) and left.cls is right.cls:
        values = [*left.attributes.values(), *right.attributes.values()]
        known = all_plain(*values) and not any_traced(values) and any_unknown(values) is None
        if not left.cls.is_enum and (left.cls.fields is None or not known):
            return lost
        same = not left.cls.is_enum and left.attributes == right.attributes
    elif not same and (isinstance(left, Instance) or isinstance(right, Instance)):
        one: Instance = left if isinstance(left, Instance) else right
        if one.cls.is_tuple or one.cls.is_enum or "__eq__" in one.cls.names:
            return lost
    return same is (kind is ast.Eq)
