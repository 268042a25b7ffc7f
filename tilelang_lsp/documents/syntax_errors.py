"""Syntax errors of a text, from Python's own parser: for the time before the analysis process answers."""

from __future__ import annotations

import warnings

from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.python import SYNTAX_ERROR
from tilelang.diagnostics.span import Span
from tilelang.diagnostics.syntax import syntax_error_problem
from tilelang.parsing import parse


def syntax_problem(path: str, text: str) -> Problem | None:
    """The first syntax error of `text`, or None. Costs about 15 ms per 1000 lines."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "invalid escape sequence" would be printed into the log
            parse(text)
    except SyntaxError as error:
        return syntax_error_problem(path, text, error)
    except (ValueError, RecursionError, MemoryError) as error:  # null bytes, nesting no parser survives
        return SYNTAX_ERROR.at(Span(path, 1, 1, 1, 2), what=str(error) or "the code is nested too deeply")
    return None
