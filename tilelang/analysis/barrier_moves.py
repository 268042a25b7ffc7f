"""The quick fix of a barrier in a branch that parts the threads: it moves to where all of them come."""

from __future__ import annotations

import ast
from dataclasses import replace

from tilelang.analysis.subject import Subject
from tilelang.analysis.written_statements import indent_of, line_span, statements_around
from tilelang.diagnostics.problem import Edit, Fix
from tilelang.diagnostics.span import Span, text_lines
from tilelang.ops.source_edits import lone_statement_indent, span_text

_PLAIN = (ast.Name, ast.Constant, ast.Compare, ast.BoolOp, ast.BinOp, ast.UnaryOp)
_PARTS = (ast.operator, ast.cmpop, ast.boolop, ast.unaryop, ast.expr_context)


def barrier_moves(subject: Subject, barrier: Span, condition: Span) -> tuple[Fix, ...]:
    """Out of the `if` at `condition` whose branch the barrier stands in: in front of it where nothing comes
    first in the branch, behind it where nothing follows, else between its two halves.

    The condition is written twice only where nothing in between can change it.
    """
    around = statements_around(subject, barrier)
    if len(around) < 2 or not isinstance(around[-2], ast.If) or around[-2].lineno != condition.line:
        return ()
    branch, statement = around[-2], around[-1]
    outer = indent_of(subject, branch)
    if outer.strip() or lone_statement_indent(barrier, subject.text) is None:
        return ()  # an `elif`, for one
    if statement not in branch.body or _others_wait(branch, statement):
        return ()
    if len(branch.body) == 1:
        start = line_span(barrier.path, branch)
        alone = replace(start, end_line=barrier.line, end_column=barrier.column)
        comments = "#" in span_text(alone, subject.text)
        keeps = branch.orelse or comments
        return () if keeps else (Fix("Take the barrier out of the branch", (Edit(alone, ""),)),)
    written = text_lines(subject.text)[barrier.line - 1][barrier.column - 1 :].rstrip()
    before = branch.body[: branch.body.index(statement)]
    if not before:
        edits = (Edit(line_span(barrier.path, branch), f"{written}\n{outer}"), _without(barrier))
        return (Fix("Move the barrier in front of the branch", edits),)
    if branch.orelse:
        return ()
    dedented = replace(barrier, column=1, end_column=barrier.column)
    if statement is branch.body[-1]:
        return (Fix("Move the barrier behind the branch", (Edit(dedented, outer),)),)
    test = ast.get_source_segment(subject.text, branch.test)
    if test is None or "\n" in test or not _stays(branch.test, before):
        return ()
    end = len(text_lines(subject.text)[barrier.line - 1].rstrip()) + 1
    again = Edit(replace(barrier, column=end, end_column=end), f"\n{outer}if {test}:")
    return (Fix("Move the barrier between the halves of the branch", (Edit(dedented, outer), again)),)


def _others_wait(branch: ast.If, statement: ast.stmt) -> bool:
    """Whether the branch has another barrier, which would be met more or less often than this one."""
    barrier = ast.dump(statement)
    return sum(isinstance(n, ast.Expr) and ast.dump(n) == barrier for n in ast.walk(branch)) > 1


def _without(barrier: Span) -> Edit:
    """Without its line, and what is noted there."""
    return Edit(Span(barrier.path, barrier.line, 1, barrier.line + 1, 1), "")


def _stays(test: ast.expr, before: list[ast.stmt]) -> bool:
    """Whether a condition is made of names that no statement binds anew or hands on."""
    if not all(isinstance(n, (*_PLAIN, *_PARTS)) for n in ast.walk(test)):
        return False
    read = {n.id for n in ast.walk(test) if isinstance(n, ast.Name)}
    changed: set[str] = set()
    for node in (n for s in before for n in ast.walk(s)):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            changed.add(node.id)
        elif isinstance(node, ast.Call):
            changed |= {a.id for a in node.args if isinstance(a, ast.Name)}
    return not read & changed
