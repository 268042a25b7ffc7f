"""Python's names that the language has too: a star import of it takes their place."""

from __future__ import annotations

import ast
import builtins


def hides_builtin(function: ast.expr) -> bool:
    """Whether a function of the language is called by the plain name of one of Python's."""
    return isinstance(function, ast.Name) and hasattr(builtins, function.id)


def not_pythons(written: str, name: str) -> str:
    """What to add to a message about a call of the language's `name` that is `written` as a builtin."""
    return (
        f"`{written}` is T.{name} here, not Python's, since it was imported from tilelang.language "
        f"(`builtins.{written}` is Python's)"
    )
