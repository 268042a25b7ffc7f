"""Semantic tokens: every buffer's name coloured by the memory it lives in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tilelang.diagnostics.span import Span
from tilelang.facts.kernel_facts import KernelFacts

# Modifiers of the standard type "variable": a theme that knows none of them still shows a variable.
SCOPES = ("global", "shared", "fragment", "local", "var")


@dataclass(frozen=True)
class Token:
    """A name on one line, and its memory scope, an entry of SCOPES."""

    span: Span
    scope: str


def semantic_tokens(kernels: Iterable[KernelFacts]) -> list[Token]:
    """The tokens of all buffers in the order of the text, none overlapping another."""
    found: dict[Span, str] = {}
    for facts in kernels:
        for buffer in facts.buffers:
            found[buffer.name_span] = buffer.scope
        for use in facts.uses:
            found[use.span] = facts.buffers[use.buffer].scope
    tokens: list[Token] = []
    for span, scope in sorted(found.items()):
        one_line = span.line == span.end_line and span.column < span.end_column
        after_last = not tokens or (tokens[-1].span.end_line, tokens[-1].span.end_column) <= (
            span.line,
            span.column,
        )
        if one_line and after_last and scope in SCOPES:
            tokens.append(Token(span, scope))
    return tokens
