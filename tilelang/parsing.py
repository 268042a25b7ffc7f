"""Python's parser, one text at a time: the one place where this package calls `ast.parse`."""

from __future__ import annotations

import ast
import os
import threading
from typing import Literal, overload

# CPython 3.11 counts the depth of the nodes it makes in one place for all threads of an interpreter
# (python/cpython#106905). A collection of garbage amid a parse runs Python code, which lets another thread
# parse, and the first one then ends with "SystemError: AST constructor recursion depth mismatch". Kernels are
# compiled side by side, so parses wait for each other; the interpreter lock lets only one run in any case.
# Taken again by the same thread, where a finalizer parses, it must not wait for itself.
_ONE_AT_A_TIME = threading.RLock()

if hasattr(os, "register_at_fork"):  # a child made while another thread parses would wait for ever
    os.register_at_fork(
        before=_ONE_AT_A_TIME.acquire,
        after_in_parent=_ONE_AT_A_TIME.release,
        after_in_child=_ONE_AT_A_TIME.release,
    )


@overload
def parse(text: str, mode: Literal["exec"] = "exec") -> ast.Module: ...
@overload
def parse(text: str, mode: Literal["eval"]) -> ast.Expression: ...
def parse(text: str, mode: Literal["exec", "eval"] = "exec") -> ast.Module | ast.Expression:
    """The tree of a module's text, or with mode="eval" of one expression; safe in threads.

    Raises SyntaxError and ValueError as `ast.parse` does.
    """
    with _ONE_AT_A_TIME:
        return ast.parse(text) if mode == "exec" else ast.parse(text, mode="eval")
