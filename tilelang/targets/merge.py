"""Kernels with several launches: what their parts were lowered to, as one source and one plan.

In:  the lowered kernel of each launch, in order.
Out: one LoweredKernel whose source holds all of them, helpers and includes once, and whose plan launches them
     one after the other.
Not: optimising across launches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tilelang.facts.reports import GeneratedSource
from tilelang.runtime.plan import ScalarParam, TensorParam
from tilelang.targets.lowered import LoweredKernel

Line = tuple[str, int]


def merge(parts: Sequence[LoweredKernel]) -> LoweredKernel:
    """One kernel that launches `parts` in order."""
    first, *others = parts
    params = tuple(map(_needed, *(p.plan.params for p in parts)))
    plan = replace(first.plan, params=params, following=tuple(p.plan for p in others))
    return replace(
        first,
        plan=plan,
        source=_sources(parts),
        layouts=_joined([p.layouts for p in parts]),
        registers=_joined([p.registers for p in parts]),
        instructions=_joined([p.instructions for p in parts]),
        notes=tuple(note for p in parts for note in p.notes),
        parts=tuple(parts),
    )


def _needed(
    first: TensorParam | ScalarParam, *others: TensorParam | ScalarParam
) -> TensorParam | ScalarParam:
    """A parameter of all launches: it may be left out only if none of them touches it, and is written if one
    of them writes it.
    """
    if not isinstance(first, TensorParam):
        return first
    same = [first, *(p for p in others if isinstance(p, TensorParam))]
    return replace(first, unused=all(p.unused for p in same), written=any(p.written for p in same))


def _joined(tables: Sequence[Mapping[Any, Any]]) -> dict[Any, Any]:
    return {key: value for table in tables for key, value in table.items()}


def _sources(parts: Sequence[LoweredKernel]) -> GeneratedSource:
    """Heads (includes, declarations), then the kernels, then the helpers, each only once."""
    heads: list[list[Line]] = []
    kernels: list[list[Line]] = []
    helpers: list[list[Line]] = []
    for part in parts:
        lines = list(zip(part.source.text.splitlines(), part.source.line_map, strict=True))
        start = next((k for k, (text, _) in enumerate(lines) if f"{part.plan.entry}(" in text), 0)
        _add(heads, _declarations(lines[:start]))
        kernel, *rest = _blocks(lines[start:])
        kernels.append(kernel)
        _add(helpers, rest)
    head = [line for declaration in heads for line in declaration]
    blocks = ([head] if head else []) + kernels + helpers
    lines = [line for k, block in enumerate(blocks) for line in ([("", 0)] if k else []) + block]
    first = parts[0].source
    text = "\n".join(text for text, _ in lines) + "\n"
    return GeneratedSource(first.kernel, first.target, first.language, text, tuple(n for _, n in lines))


def _add(known: list[list[Line]], found: Sequence[list[Line]]) -> None:
    """Those of `found` whose text is new."""
    seen = {tuple(text for text, _ in block) for block in known}
    known += [block for block in found if tuple(text for text, _ in block) not in seen]


def _declarations(lines: Sequence[Line]) -> list[list[Line]]:
    """Includes and declarations of a head; the lines that a long one was wrapped to stay together, for its
    last ones may be those of another.
    """
    found: list[list[Line]] = []
    for line in lines:
        if line[0].startswith((" ", "}")):
            found[-1].append(line)
        elif line[0]:
            found.append([line])
    return found


def _blocks(lines: list[Line]) -> list[list[Line]]:
    """Runs of lines between empty ones."""
    blocks: list[list[Line]] = [[]]
    for line in lines:
        if line[0]:
            blocks[-1].append(line)
        elif blocks[-1]:
            blocks.append([])
    return [b for b in blocks if b]
