"""The interpreter: which function interprets which syntax node, and how a run begins."""

from __future__ import annotations

import ast
from typing import Any

from tilelang.frontend.names import known_size, read_name
from tilelang.frontend.python import expressions as e
from tilelang.frontend.python import statements as s
from tilelang.frontend.python.attributes import attribute
from tilelang.frontend.python.branches import conditional, if_statement
from tilelang.frontend.python.calls import call
from tilelang.frontend.python.classes import class_definition
from tilelang.frontend.python.imports import import_from_statement, import_statement
from tilelang.frontend.python.launch import with_statement
from tilelang.frontend.python.loops import break_statement, continue_statement, for_statement, while_statement
from tilelang.frontend.python.matching import match_statement
from tilelang.frontend.python.subscripts import slice_value, subscript
from tilelang.frontend.run import Environment, Evaluate, Execute, Limits, Run
from tilelang.frontend.scope import Scope
from tilelang.frontend.source import Source


def _with_sizes(evaluate: Evaluate) -> Evaluate:
    """The same where containers, objects and functions hold a size: `sizes["m"]`, `config.m`."""

    def evaluated(run: Run, node: Any) -> Any:
        return known_size(run, evaluate(run, node))

    return evaluated


EXPRESSIONS: dict[type[ast.expr], Evaluate] = {
    ast.Attribute: _with_sizes(attribute),
    ast.Await: e.unsupported,
    ast.BinOp: e.binary_expression,
    ast.BoolOp: e.boolean_expression,
    ast.Call: _with_sizes(call),
    ast.Compare: e.comparison,
    ast.Constant: e.constant,
    ast.Dict: e.dict_display,
    ast.DictComp: e.dict_comprehension,
    ast.FormattedValue: e.formatted_value,
    ast.GeneratorExp: e.list_comprehension,
    ast.IfExp: conditional,
    ast.JoinedStr: e.formatted_string,
    ast.Lambda: e.lambda_expression,
    ast.List: e.list_display,
    ast.ListComp: e.list_comprehension,
    ast.Name: read_name,
    ast.NamedExpr: e.named_expression,
    ast.Set: e.set_display,
    ast.SetComp: e.set_comprehension,
    ast.Slice: slice_value,
    ast.Starred: e.starred,
    ast.Subscript: _with_sizes(subscript),
    ast.Tuple: e.tuple_display,
    ast.UnaryOp: e.unary_expression,
    ast.Yield: e.yielded,
    ast.YieldFrom: e.yielded,
}
STATEMENTS: dict[type[ast.stmt], Execute] = {
    ast.AnnAssign: s.annotated_assignment,
    ast.Assert: s.assert_statement,
    ast.Assign: s.assignment,
    ast.AsyncFor: s.unsupported_statement,
    ast.AsyncFunctionDef: s.unsupported_statement,
    ast.AsyncWith: s.unsupported_statement,
    ast.AugAssign: s.augmented_assignment,
    ast.Break: break_statement,
    ast.ClassDef: class_definition,
    ast.Continue: continue_statement,
    ast.Delete: s.delete_statement,
    ast.Expr: s.expression_statement,
    ast.For: for_statement,
    ast.FunctionDef: s.function_definition,
    ast.Global: s.nothing,
    ast.If: if_statement,
    ast.Import: import_statement,
    ast.ImportFrom: import_from_statement,
    ast.Match: match_statement,
    ast.Nonlocal: s.nothing,
    ast.Pass: s.nothing,
    ast.Raise: s.raise_statement,
    ast.Return: s.return_statement,
    ast.Try: s.try_statement,
    ast.While: while_statement,
    ast.With: with_statement,
}


def new_run(environment: Environment, source: Source, scope: Scope, limits: Limits | None = None) -> Run:
    """An interpretation of code in `source` whose names are those of `scope`."""
    return Run(environment, source, scope, EXPRESSIONS, STATEMENTS, limits or Limits())
