"""The extents of T.gemm's operands: which must be equal, and what would fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tilelang.diagnostics.problem import Fix, Problem
from tilelang.diagnostics.rule import Rule
from tilelang.diagnostics.rules import shape as shape_rules
from tilelang.ir.tile_program import OpRecord
from tilelang.ir.values import Region, Value, as_int, show
from tilelang.ops.operands import declared, shape_text
from tilelang.ops.source_edits import (
    append_argument,
    replace_argument,
    shape_edit,
)
from tilelang.ops.tile_op import CheckContext


@dataclass(frozen=True)
class Side:
    """One extent of the product as one operand has it: `K` of `B_s`."""

    name: str  # "M", "N", "K"
    argument: str  # "A", "B", "C"
    region: Region
    size: Value
    row: bool  # the last dimension but one, not the last

    @property
    def axis(self) -> int:
        return len(self.region.buffer.shape) - (2 if self.row else 1)


def matching_sides(
    a: Region, b: Region, c: Region, transpose_a: bool, transpose_b: bool
) -> list[tuple[Side, Side]]:
    """The three pairs of extents that must be equal."""
    m, k = reversed(a.extents[-2:]) if transpose_a else a.extents[-2:]
    k2, n = reversed(b.extents[-2:]) if transpose_b else b.extents[-2:]
    m2, n2 = c.extents[-2:]
    return [
        (Side("K", "A", a, k, transpose_a), Side("K", "B", b, k2, not transpose_b)),
        (Side("M", "A", a, m, not transpose_a), Side("M", "C", c, m2, True)),
        (Side("N", "B", b, n, transpose_b), Side("N", "C", c, n2, False)),
    ]


def transpose_options(record: OpRecord) -> tuple[bool, bool] | None:
    """Both transpose options, None if one is not known."""
    options = [record.value(name, False) for name in ("transpose_A", "transpose_B")]
    numbers = [as_int(v) for v in options]
    return None if None in numbers else (bool(numbers[0]), bool(numbers[1]))


def check_ranks(record: OpRecord, context: CheckContext) -> Iterator[Problem]:
    for name in ("A", "B", "C"):
        region = record.region(name)
        if region is None or not region.fits_rank:
            continue
        span, related = record.span_of(name), declared(region.buffer)
        rank = len(region.buffer.shape)
        if rank < 2:
            words = "1 dimension" if rank == 1 else f"{rank} dimensions"
            yield shape_rules.GEMM_RANK.at(span, related=related, operand=region.text(), rank=words)
        elif region.is_point:
            rows = show(region.buffer.shape[-1])
            yield shape_rules.GEMM_POINT.at(
                span, related=related, operand=region.text(), buffer=region.buffer.name, rows=rows
            )
        for dim, size in enumerate(region.extents[:-2]):
            if context.prover.equal(size, 1) is False:
                yield shape_rules.GEMM_LEADING.at(
                    span,
                    related=related,
                    operand=region.text(),
                    shape=shape_text(region.extents),
                    dim=dim,
                    size=show(size),
                )


def shape_problems(
    record: OpRecord,
    found: list[Region],
    transposes: tuple[bool, bool],
    wrong: list[tuple[Side, Side]],
    context: CheckContext,
) -> Iterator[Problem]:
    cure = _fitting_transposes(found, transposes, context)
    if cure is None:
        for left, right in wrong:
            fixes = _allocation_fixes(left, right, context) if len(wrong) == 1 else ()
            yield _shape_problem(record, left, right, shape_rules.GEMM_SHAPE, fixes)
        return
    text, fixes = transpose_fixes(record, transposes, cure)
    left, right = wrong[0]
    yield _shape_problem(record, left, right, shape_rules.GEMM_SHAPE_TRANSPOSED, fixes, option=text)


def _allocation_fixes(left: Side, right: Side, context: CheckContext) -> tuple[Fix, ...]:
    """Either tile allocated as the other wants it, where their extents are numbers in the text. Of a slice
    it is rather the bounds that are wrong.
    """
    found: list[Fix] = []
    if not (left.region.whole and right.region.whole):
        return ()
    for side, other in ((right, left), (left, right)):
        buffer, old, new = side.region.buffer, as_int(side.size), as_int(other.size)
        whole = side.region.whole and buffer.role is None and buffer.view_of is None
        if not whole or old is None or new is None:
            continue
        edit = shape_edit(buffer.span, context.text, side.axis, old, new)
        if edit is not None:
            shape = shape_text([new if d == side.axis else e for d, e in enumerate(buffer.shape)])
            found.append(Fix(f"Allocate {buffer.name} as {shape}", (edit,)))
    return tuple(found)


def transpose_fixes(
    record: OpRecord, given: tuple[bool, bool], wanted: tuple[bool, bool]
) -> tuple[str, tuple[Fix, ...]]:
    """`transpose_B=True`, what must be given other than it is, and the edit that does so."""
    options = zip(("transpose_A", "transpose_B"), given, wanted, strict=True)
    changed = [(name, new) for name, old, new in options if old != new]
    text = " and ".join(f"{name}={new}" for name, new in changed)
    return text, _transpose_fix(record, text, changed)


def _transpose_fix(record: OpRecord, text: str, changed: list[tuple[str, bool]]) -> tuple[Fix, ...]:
    """Options that the call gives are replaced, the others appended together."""
    replaced = [replace_argument(record, name, str(new)) for name, new in changed]
    edits = [e for e in replaced if e is not None]
    left_out = [f"{name}={new}" for (name, new), e in zip(changed, replaced, strict=True) if e is None]
    if left_out:
        appended = append_argument(record, ", ".join(left_out))
        if appended is None:
            return ()
        edits.append(appended)
    return (Fix(f"Use {text}", tuple(edits)),)


def _fitting_transposes(
    found: list[Region], transposes: tuple[bool, bool], context: CheckContext
) -> tuple[bool, bool] | None:
    """Other transpose options under which all extents are proven equal; the fewest changes first."""
    return next(iter(fitting_transposes(found, transposes, context)), None)


def fitting_transposes(
    found: Sequence[Region], transposes: tuple[bool, bool], context: CheckContext
) -> Iterator[tuple[bool, bool]]:
    """All of them."""
    a, b = transposes
    for cure in ((a, not b), (not a, b), (not a, not b)):
        if fits(found, cure, context):
            yield cure


def fits(found: Sequence[Region], transposes: tuple[bool, bool], context: CheckContext) -> bool:
    """Whether the extents of a product are proven equal under two transpose options."""
    return all(
        context.prover.equal(x.size, y.size)
        for x, y in matching_sides(found[0], found[1], found[2], *transposes)
    )


def may_fit(found: Sequence[Region], transposes: tuple[bool, bool], context: CheckContext) -> bool:
    """Whether no extents of a product are proven unequal: for some sizes it may be one."""
    return all(
        context.prover.equal(x.size, y.size) is not False
        for x, y in matching_sides(found[0], found[1], found[2], *transposes)
    )


def _shape_problem(
    record: OpRecord, left: Side, right: Side, rule: Rule, fixes: tuple[Fix, ...] = (), option: str = ""
) -> Problem:
    return rule.at(
        record.span_of(right.argument),
        related=declared(left.region.buffer, right.region.buffer),
        fixes=fixes,
        dim=left.name,
        left=left.region.text(),
        left_shape=shape_text(left.region.extents),
        left_size=show(left.size),
        right=right.region.text(),
        right_shape=shape_text(right.region.extents),
        right_size=show(right.size),
        option=option,
    )


def check_runtime(
    record: OpRecord, pairs: list[tuple[Side, Side]], context: CheckContext
) -> Iterator[Problem]:
    for pair in pairs:
        for side in pair:
            if context.runtime(side.size):
                yield shape_rules.GEMM_RUNTIME_EXTENT.at(
                    record.span_of(side.argument),
                    related=declared(side.region.buffer),
                    dim=side.name,
                    operand=side.region.text(),
                    size=show(side.size),
                )
                break
