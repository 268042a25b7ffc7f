"""A file written back with what is known of its kernels as comments: for debugging, tests and reviews.

Every line keeps its number and its code; facts and problems are put behind the code of the line that they are
about, in the words of the hovers.
"""

from __future__ import annotations

import io
import tokenize
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator

from tilelang.diagnostics.problem import Problem
from tilelang.facts.kernel_facts import KernelFacts
from tilelang.facts.wording import basis_words, buffer_words, launch_words, loop_words


def annotated(text: str, kernels: Iterable[KernelFacts], problems: Iterable[Problem]) -> str:
    """`text` (lines end with \\n) with the facts of `kernels` and the `problems` as comments."""
    notes: dict[int, dict[str, None]] = defaultdict(dict)  # one kernel inlined twice says the same twice
    for facts in kernels:
        for line, note in _of_kernel(facts):
            notes[line][note] = None
    for problem in problems:
        message = " ".join(problem.message.split())
        notes[problem.span.line][f"{problem.severity.value}[{problem.rule}]: {message}"] = None
    lines = text.split("\n")
    free = _free_lines(text)
    placed: dict[int, list[str]] = defaultdict(list)
    for line in sorted(notes):
        at = bisect_left(free, line)
        placed[free[at] if at < len(free) else len(lines)] += notes[line]
    for line, said in placed.items():
        before = lines[line - 1].rstrip()
        lines[line - 1] = f"{before}{'  ' if before else ''}# {' | '.join(said)}"
    return "\n".join(lines)


def _of_kernel(facts: KernelFacts) -> Iterator[tuple[int, str]]:
    """(line, note) of everything that is known."""
    kind = f"{facts.style} kernel {facts.qualified_name} for {facts.target}"
    yield facts.name_span.line, "; ".join([kind, *basis_words(facts)])
    if facts.launch is not None:
        yield facts.launch.span.line, "; ".join(launch_words(facts))
    for buffer in facts.buffers:
        if buffer.name_span.path == facts.span.path:
            yield (
                buffer.name_span.line,
                "; ".join([f"{buffer.name}: {buffer.type_text()}", *buffer_words(buffer)]),
            )
    for loop in facts.loops:
        if loop.span.path == facts.span.path:
            yield loop.span.line, "; ".join(loop_words(loop))
    for op in facts.ops:
        if op.span.path == facts.span.path:
            instruction = [op.instruction] if op.instruction else []
            yield op.span.line, "; ".join([op.summary, *instruction, *op.notes])


def _free_lines(text: str) -> list[int]:
    """The lines, in order, behind whose code a comment may stand: those that end outside a text, without a
    backslash that continues them.
    """
    free: set[int] = set()
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in (tokenize.NEWLINE, tokenize.NL):
                free.add(token.start[0])
    except (tokenize.TokenError, SyntaxError):
        pass  # a half-typed file has no kernels to say much about; what came before the break is annotated
    return sorted(free)
