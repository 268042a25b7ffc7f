"""The one exception of the compiler: all problems of a kernel, raised once."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tilelang.diagnostics.problem import Problem

# What Python, or the language's own release, raises for such a mistake: `except` clauses and tests written
# for it then hold. All others are a ValueError and a RuntimeError like every KernelError.
_PYTHON: Mapping[str, tuple[type[Exception], ...]] = MappingProxyType(
    {
        "atomic-shape": (NotImplementedError,),
        "bad-arguments": (TypeError, IndexError, KeyError, AssertionError, NotImplementedError),
        "gemm-scope": (AssertionError,),
        "gemm-shape": (AssertionError,),
        "index-count": (IndexError,),
        "layout-not-injective": (AssertionError,),
        "python-bool": (TypeError,),
        "reducer-update": (AssertionError,),
        "removed-argument": (TypeError,),
        "tile-as-scalar": (TypeError,),
        "traced-python-index": (TypeError,),
        "unknown-attribute": (AttributeError,),
        "unknown-language-name": (AttributeError,),
        "unknown-name": (NameError,),
        "unsupported-language-name": (NotImplementedError,),
        "unsupported-python": (NotImplementedError, TypeError),
        "view-shape": (AssertionError,),
    }
)
# What Python code may raise while a kernel is traced: the message of `python-error` begins with the name.
_RAISED = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    IndexError,
    KeyError,
    NameError,
    NotImplementedError,
    OverflowError,
    TypeError,
    ZeroDivisionError,
)


class KernelError(ValueError, RuntimeError):
    """A kernel cannot be compiled. `problems` holds every finding, errors first; the text shows them all.

    `text` replaces the plain listing, where whoever raises it can show the source as well. The object is also
    of the class that Python has for the first of the problems (`TypeError` for a call that does not fit).
    """

    def __new__(cls, problems: list[Problem], text: str | None = None) -> KernelError:
        first = min(problems, key=_order, default=None)
        made = _class_for(cls, _python_classes(first) if first else ())
        return super().__new__(made)  # pyright: ignore[reportArgumentType] - a subclass of `cls`

    def __init__(self, problems: list[Problem], text: str | None = None) -> None:
        self.problems = sorted(problems, key=_order)
        listing = (f"{p.span}: {p.severity.value}[{p.rule}]: {p.message}" for p in self.problems)
        super().__init__("\n".join(listing) if text is None else text)

    def __str__(self) -> str:  # a KeyError would quote it
        return str(self.args[0])


def _order(problem: Problem) -> Any:
    return problem.severity.rank, problem.span


def _python_classes(problem: Problem) -> tuple[type[Exception], ...]:
    if problem.rule == "python-error":
        name = problem.message.partition(":")[0]
        return tuple(raised for raised in _RAISED if raised.__name__ == name)
    return _PYTHON.get(problem.rule, ())


@functools.cache
def _class_for(cls: type[KernelError], also: tuple[type[Exception], ...]) -> type[KernelError]:
    """`cls`, or a class that is also each of `also`; it goes by the same name."""
    if not also:
        return cls
    return type(cls.__name__, (cls, *also), {"__module__": cls.__module__, "__doc__": cls.__doc__})
