"""Edits of calls for quick fixes, made from the spans that records keep."""

from __future__ import annotations

import ast
from dataclasses import replace

from tilelang.diagnostics.problem import Edit
from tilelang.diagnostics.span import Span, lines_of
from tilelang.ir.tile_program import OpRecord
from tilelang.parsing import parse


def replace_argument(record: OpRecord, name: str, value: str) -> Edit | None:
    """Write another value for an argument that the call gives; None if the call leaves it out."""
    operand = record.operands.get(name)
    if operand is None or operand.span == record.span:
        return None
    return Edit(operand.span, value)


def append_argument(record: OpRecord, argument: str) -> Edit | None:
    """Add `name=value` after the last argument of the call; None if no argument has a place of its own."""
    spans = [o.span for o in record.operands.values() if o.span != record.span]
    if not spans:
        return None
    last = max(spans, key=lambda s: (s.end_line, s.end_column))
    return Edit(end_of(last), f", {argument}")


def end_of(span: Span) -> Span:
    """The empty span just behind `span`."""
    return replace(span, line=span.end_line, column=span.end_column)


def text_of(span: Span, source: str) -> str:
    """The text of a span on one line; empty if it covers several or the source is not at hand."""
    lines = lines_of(span, source)
    if span.line != span.end_line or not 0 < span.line <= len(lines):
        return ""
    return lines[span.line - 1][span.column - 1 : span.end_column - 1]


def lone_statement_indent(span: Span, source: str) -> str | None:
    """What stands before the statement at a span; None unless its lines hold nothing else but a
    comment.
    """
    lines = lines_of(span, source)
    if not 0 < span.line <= span.end_line <= len(lines):
        return None
    indent, behind = lines[span.line - 1][: span.column - 1], lines[span.end_line - 1][span.end_column - 1 :]
    alone = not indent.strip() and (not behind.strip() or behind.lstrip().startswith("#"))
    return indent if alone else None


def keyword_span(call: Span, source: str, name: str) -> Span:
    """The place of the value of `name=...` in the call at a span; the whole call if it is not given so."""
    value = _keyword(call, source, name)
    return call if value is None else _span_in(call, source, value)


def keyword_edit(call: Span, source: str, name: str, value: int) -> Edit | None:
    """Write another number for a keyword that the call gives as a number.

    A number that a name stands for is left alone: others may use the name too.
    """
    found = _keyword(call, source, name)
    if not isinstance(found, ast.Constant) or type(found.value) is not int:
        return None
    return Edit(_span_in(call, source, found), str(value))


def dtype_edit(call: Span, source: str, old: str, new: str) -> Edit | None:
    """Write another dtype in the call at a span, which gives it as `T.int32` or "int32"; a dtype that a name
    stands for is left alone.
    """
    node = _call_at(call, source)
    for value in [*node.args, *(k.value for k in node.keywords)] if node is not None else []:
        if isinstance(value, ast.Constant) and value.value == old:
            return Edit(_span_in(call, source, value), f'"{new}"')
        if isinstance(value, ast.Attribute) and value.attr == old:
            return Edit(_span_in(call, source, value), f"{ast.unparse(value.value)}.{new}")
    return None


def callee_edit(call: Span, source: str, callee: str) -> Edit | None:
    """Write another function for the call at a span: `range(4)` -> `T.Pipelined(4)`."""
    node = _call_at(call, source)
    return None if node is None else Edit(_span_in(call, source, node.func), callee)


def argument_of(call: Span, source: str, position: int, name: str) -> ast.expr | None:
    """What the call at a span gives for a parameter, by position or by name; None if that is not at hand."""
    node = _call_at(call, source)
    if node is None:
        return None
    if position < len(node.args):
        return node.args[position]
    return next((k.value for k in node.keywords if k.arg == name), None)


def argument_span(call: Span, source: str, position: int) -> Span | None:
    """The place of a positional argument of the call at a span; None if it has no such argument."""
    node = _call_at(call, source)
    if node is None or position >= len(node.args) or any(isinstance(a, ast.Starred) for a in node.args):
        return None
    return _span_in(call, source, node.args[position])


def entry_spans(outer: Span, source: str) -> list[Span]:
    """The places of the values of the dict written out at a span; none if it is something else, or takes
    entries from elsewhere.
    """
    try:
        node = parse(f"({span_text(outer, source)})", mode="eval").body
    except (SyntaxError, ValueError):
        return []
    if not isinstance(node, ast.Dict) or None in node.keys:
        return []
    return [_span_in(outer, source, value) for value in node.values]


def factor_edit(span: Span, source: str, names: list[str], function: str) -> Edit | None:
    """Write `function(x)` for the first of `names` that is a factor in the expression at a span, or is
    shifted to the left; None if none is.
    """
    try:
        tree = parse(f"({span_text(span, source)})", mode="eval")
    except (SyntaxError, ValueError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.LShift):
            for side in (node.left, node.right)[: 2 if isinstance(node.op, ast.Mult) else 1]:
                if isinstance(side, ast.Name) and side.id in names:
                    return Edit(_span_in(span, source, side), f"{function}({side.id})")
    return None


def statement_removal(name: Span, value: Span, source: str) -> Edit | None:
    """Remove the assignment `name = value` with its lines; None where other code stands on them, or where its
    block might have no other statement.
    """
    lines = lines_of(name, source)
    if not 0 < name.line <= value.end_line < len(lines):
        return None
    first, last = lines[name.line - 1], lines[value.end_line - 1]
    indent, behind = first[: name.column - 1], last[value.end_column - 1 :].strip()
    between = span_text(
        replace(name, column=name.end_column, end_line=value.line, end_column=value.column), source
    )
    if indent.strip() or between.strip() != "=" or (behind and not behind.startswith("#")):
        return None
    following = lines[value.end_line]
    if (
        not following.startswith(indent)
        or not following[len(indent) :].strip()
        or following[len(indent)] in " \t"
    ):
        return None
    return Edit(Span(name.path, name.line, 1, value.end_line + 1, 1), "")


def whole_division_edits(span: Span, source: str) -> tuple[Edit, ...]:
    """Write `//` for each `/` of the expression, or of the expressions of the tuple, at a span; nothing where
    floats are written out, or where no division stands outside of calls.
    """
    text = f"({span_text(span, source)})"
    try:
        node = parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        return ()
    edits: list[Edit] = []
    pending: list[ast.expr] = [node]
    while pending:
        part = pending.pop()
        match part:
            case ast.Constant(value=float()):
                return ()
            case ast.Tuple() | ast.List():
                pending += part.elts
            case ast.UnaryOp():
                pending.append(part.operand)
            case ast.BinOp():
                pending += [part.left, part.right]
                if isinstance(part.op, ast.Div):
                    left, right = _span_in(span, source, part.left), _span_in(span, source, part.right)
                    between = replace(left, line=left.end_line, column=left.end_column)
                    between = replace(between, end_line=right.line, end_column=right.column)
                    written = span_text(between, source)
                    at = between.column + written.find("/")
                    if between.line != between.end_line or written.count("/") != 1:
                        return ()
                    edits.append(Edit(replace(between, column=at, end_column=at + 1), "//"))
    return tuple(edits)


def shape_edit(call: Span, source: str, dim: int, old: int, new: int) -> Edit | None:
    """Write another number for one extent of the shape that the call at a span gives first, as a tuple or a
    list with that number written out.
    """
    node = _call_at(call, source)
    shape = node.args[0] if node is not None and node.args else None
    if not isinstance(shape, ast.Tuple | ast.List) or dim >= len(shape.elts):
        return None
    found = shape.elts[dim]
    if not isinstance(found, ast.Constant) or found.value != old or type(found.value) is not int:
        return None
    return Edit(_span_in(call, source, found), str(new))


def swap_sizes(call: Span, source: str, first: int, second: int) -> tuple[Edit, ...]:
    """Exchange two extents of the shape that the call at a span gives first, as a tuple or a list."""
    node = _call_at(call, source)
    shape = node.args[0] if node is not None and node.args else None
    if not isinstance(shape, ast.Tuple | ast.List) or max(first, second) >= len(shape.elts):
        return ()
    one, other = (_span_in(call, source, shape.elts[k]) for k in (first, second))
    return Edit(one, span_text(other, source)), Edit(other, span_text(one, source))


def last_argument(call: Span, source: str) -> Span | None:
    """The empty span behind the last argument of the call at a span; None if it has none."""
    node = _call_at(call, source)
    values = [*node.args, *(k.value for k in node.keywords)] if node is not None else []
    spans = [_span_in(call, source, v) for v in values]
    return end_of(max(spans, key=lambda s: (s.end_line, s.end_column))) if spans else None


def _keyword(call: Span, source: str, name: str) -> ast.expr | None:
    node = _call_at(call, source)
    return next((k.value for k in node.keywords if k.arg == name), None) if node is not None else None


def _call_at(span: Span, source: str) -> ast.Call | None:
    """The call that the text of a span is; None if it is none, or the text is not at hand."""
    try:
        node = parse(f"({span_text(span, source)})", mode="eval").body
    except (SyntaxError, ValueError):
        return None
    return node if isinstance(node, ast.Call) else None


def _span_in(outer: Span, source: str, node: ast.expr) -> Span:
    """The span of a node of `_call_at(outer, source)`, whose text begins behind one bracket."""
    lines = f"({span_text(outer, source)})".split("\n")

    def column(line: int, offset: int) -> int:
        at = len(lines[line - 1].encode()[:offset].decode())  # ast counts bytes
        return outer.column + at - 1 if line == 1 else at + 1

    end_line, end_offset = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
    start = column(node.lineno, node.col_offset)
    first = outer.line - 1
    return Span(outer.path, first + node.lineno, start, first + end_line, column(end_line, end_offset))


def span_text(span: Span, source: str) -> str:
    """The text of a span, over several lines too; empty if the source is not at hand."""
    lines = lines_of(span, source)
    if not 0 < span.line <= span.end_line <= len(lines):
        return ""
    inside = list(lines[span.line - 1 : span.end_line])
    inside[-1] = inside[-1][: span.end_column - 1]
    inside[0] = inside[0][span.column - 1 :]
    return "\n".join(inside)


def rename_callee(call: Span, source: str, new_name: str) -> Edit | None:
    """Replace the last part of the name that a call begins with: `T.alloc_shared(` -> `T.alloc_fragment(`."""
    lines = lines_of(call, source)
    if not 0 < call.line <= len(lines):
        return None
    rest = lines[call.line - 1][call.column - 1 :]
    callee, paren, _ = rest.partition("(")
    if not paren or not all(part.isidentifier() for part in callee.split(".")):
        return None
    start = call.column + len(callee) - len(callee.rpartition(".")[2])
    return Edit(Span(call.path, call.line, start, call.line, call.column + len(callee)), new_name)


def swap_arguments(call: Span, source: str, first: int, second: int) -> tuple[Edit, Edit] | None:
    """Exchange two positional arguments of a call on one line; None where that is not possible."""
    written = text_of(call, source)
    try:
        tree = parse(written, mode="eval").body
    except SyntaxError:
        return None
    if not isinstance(tree, ast.Call) or not written.isascii() or max(first, second) >= len(tree.args):
        return None
    if any(isinstance(a, ast.Starred) for a in tree.args):
        return None
    places = [
        replace(call, column=call.column + a.col_offset, end_column=call.column + (a.end_col_offset or 0))
        for a in (tree.args[first], tree.args[second])
    ]
    texts = [text_of(p, source) for p in places]
    return Edit(places[0], texts[1]), Edit(places[1], texts[0])
