"""What a target multiplies: scopes, dtypes, tiles and warps of T.gemm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilelang.arch.instruction import MatrixInstruction
from tilelang.arch.tables import features, first_with, matrix_instructions
from tilelang.arch.target import Target
from tilelang.arch.warp_partition import legal_threads, warp_partitions
from tilelang.diagnostics.problem import Fix, Problem, Related
from tilelang.diagnostics.rule import Rule
from tilelang.diagnostics.rules import dtype as dtype_rules
from tilelang.diagnostics.rules import resource as resource_rules
from tilelang.diagnostics.rules import scope as scope_rules
from tilelang.ir.tile_program import OpRecord
from tilelang.ir.values import Region, as_int
from tilelang.ops.gemm_shapes import Side
from tilelang.ops.operands import declared, dtype_name, scope_name, shape_text
from tilelang.ops.source_edits import (
    dtype_edit,
    keyword_edit,
    keyword_span,
    rename_callee,
)
from tilelang.ops.tile_op import CheckContext


def check_scopes(record: OpRecord, context: CheckContext) -> Iterator[Problem]:
    can = features(context.target)
    for name in ("A", "B", "C"):
        region = record.region(name)
        if region is None:
            continue
        scope, span = region.buffer.scope, record.span_of(name)
        fields = {"operand": region.text(), "scope": scope_name(region.buffer), "target": context.target}
        if name == "C" and scope not in can.accumulator_scopes:
            variable = scope == "local.var"  # which has no shape that a fragment could take
            edit = None if variable else rename_callee(region.buffer.span, context.text, "alloc_fragment")
            fixes = (Fix("Allocate it with T.alloc_fragment", (edit,)),) if edit is not None else ()
            yield scope_rules.GEMM_SCOPE.at(span, related=declared(region.buffer), fixes=fixes, **fields)
        elif name != "C" and scope not in can.operand_scopes:
            yield scope_rules.GEMM_OPERAND_SCOPE.at(span, related=declared(region.buffer), **fields)
        elif scope == "local.fragment" and _is_part(region, context):
            yield scope_rules.GEMM_PART_OF_FRAGMENT.at(
                span,
                related=declared(region.buffer),
                operand=region.text(),
                buffer=region.buffer.name,
                shape=shape_text(region.buffer.shape),
            )


def _is_part(region: Region, context: CheckContext) -> bool:
    """Whether the region is proven smaller than its buffer."""
    return not region.is_point and any(
        context.prover.less(e, d) for e, d in zip(region.extents, region.buffer.shape, strict=False)
    )


def check_dtypes(record: OpRecord, context: CheckContext) -> Iterator[Problem]:
    """Operands that do not go together, and what the target has no instruction for."""
    a, b, c = (record.region(name) for name in ("A", "B", "C"))
    left, right = (dtype_name(r.buffer) if r is not None else None for r in (a, b))
    if a and b and left and right and left != right:
        rule = _against_mix(left, right, context.target)
        if rule is not None:
            yield rule.at(
                record.span_of("B"),
                related=declared(a.buffer, b.buffer),
                a=a.buffer.name,
                a_dtype=left,
                b=b.buffer.name,
                b_dtype=right,
                target=context.target,
            )
            return
    operand, accumulator = left or right, dtype_name(c.buffer) if c is not None else None
    if operand is None or not features(context.target).unit:
        return
    known = matrix_instructions(context.target)
    legal = list(dict.fromkeys(acc for i in known if i.operand == operand for acc in i.accumulators))
    if not legal:
        yield _no_instruction(record, operand, known, context.target)
    elif c is not None and accumulator is not None and accumulator not in legal:
        edits = {new: dtype_edit(c.buffer.span, context.text, accumulator, new) for new in legal}
        yield dtype_rules.GEMM_ACCUMULATOR.at(
            record.span_of("C"),
            related=declared(c.buffer),
            fixes=tuple(
                Fix(f"Make {c.buffer.name} {new}", (e,)) for new, e in edits.items() if e is not None
            ),
            c=c.buffer.name,
            c_dtype=accumulator,
            operand=operand,
            legal=" or ".join(legal),
            target=context.target,
        )


def _against_mix(left: str, right: str, target: Target) -> Rule | None:
    """Why two dtypes cannot be multiplied with each other: nowhere, or not on this target."""
    if not _may_mix(left, right):
        return dtype_rules.GEMM_DTYPE
    can = features(target)
    mixes = not can.unit or frozenset((left, right)) in can.mixed_operands
    return None if mixes else resource_rules.UNSUPPORTED_GEMM_MIX


def _no_instruction(
    record: OpRecord, operand: str, known: Sequence[MatrixInstruction], target: Target
) -> Problem:
    """What no target multiplies is the author's mistake; what this one, or this compiler, lacks is not."""
    fields = {"target": target, "operand": operand}
    fields["known"] = ", ".join(dict.fromkeys(i.operand for i in known))
    span, first = record.span_of("A"), first_with(target, operand)
    if not known:
        return resource_rules.UNSUPPORTED_GEMM_NONE.at(span, **fields)
    if operand in _NEVER_MULTIPLIED:
        return dtype_rules.GEMM_OPERAND_DTYPE.at(span, **fields)
    if first is not None:
        return resource_rules.UNSUPPORTED_GEMM_BEFORE.at(span, first=first, **fields)
    return resource_rules.UNSUPPORTED_GEMM.at(span, **fields)


# dtypes that no tensor core of any vendor multiplies; what only our tables lack stays silent.
_NEVER_MULTIPLIED = frozenset({"bool", "int16", "uint16", "int32", "uint32", "int64", "uint64"})


def _may_mix(a: str, b: str) -> bool:
    """8-bit floats mix with each other, 8-bit integers too (PTX ISA 9.7.15, mma)."""
    return all(d.startswith("float8") for d in (a, b)) or {a, b} == {"int8", "uint8"}


def _family(target: Target, record: OpRecord) -> list[MatrixInstruction]:
    """The instructions for the operands' dtypes, preferred ones first."""
    a, c = record.region("A"), record.region("C")
    if a is None or c is None:
        return []
    operand, accumulator = dtype_name(a.buffer), dtype_name(c.buffer)
    return [i for i in matrix_instructions(target) if i.operand == operand and accumulator in i.accumulators]


def check_tile(record: OpRecord, pairs: list[tuple[Side, Side]], context: CheckContext) -> Iterator[Problem]:
    family = _family(context.target, record)
    if not family:
        return
    steps = {"M": family[0].m, "N": family[0].n, "K": min(i.k for i in family)}
    legal = True
    for left, _ in pairs:
        size, step = as_int(left.size), steps[left.name]
        if size is not None and size % step:
            legal = False
            yield resource_rules.GEMM_TILE.at(
                record.span_of(left.argument),
                related=declared(left.region.buffer),
                dim=left.name,
                operand=left.region.text(),
                size=size,
                dtype=family[0].operand,
                target=context.target,
                step=step,
                nearest=_nearest(size, step),
            )
    warp = context.target.warp_size
    threads = context.threads_of(record)
    if threads is not None and threads % warp:
        below = threads // warp * warp
        counts = [t for t in (below, below + warp) if _shares_out(pairs, family[0], t, warp)]
        yield resource_rules.THREAD_WARPS.at(
            record.callee_span,
            related=_launched(context),
            fixes=_other_threads(context, counts),
            threads=threads,
            warp=warp,
            target=context.target,
            nearest=_nearest(threads, warp),
        )
    elif threads is not None and legal:
        yield from _check_warps(record, pairs, family[0], threads, context)


def _shares_out(
    pairs: list[tuple[Side, Side]], instruction: MatrixInstruction, threads: int, warp: int
) -> bool:
    """Whether so many threads can share out the tile, as far as its size is known."""
    m, n = as_int(pairs[1][0].size), as_int(pairs[2][0].size)
    if m is None or n is None:
        return True
    return bool(warp_partitions(m, n, threads // warp, instruction.m, instruction.n))


def _check_warps(
    record: OpRecord,
    pairs: list[tuple[Side, Side]],
    instruction: MatrixInstruction,
    threads: int,
    context: CheckContext,
) -> Iterator[Problem]:
    m, n = as_int(pairs[1][0].size), as_int(pairs[2][0].size)
    warp = context.target.warp_size
    if m is None or n is None or warp_partitions(m, n, threads // warp, instruction.m, instruction.n):
        return
    legal = legal_threads(m, n, warp, instruction.m, instruction.n)
    below, above = [t for t in legal if t < threads], [t for t in legal if t > threads]
    yield resource_rules.GEMM_WARPS.at(
        record.span,
        related=_launched(context),
        fixes=_other_threads(context, [*below[-1:], *above[:1]]),
        warps=threads // warp,
        threads=threads,
        m=m,
        n=n,
        step_m=instruction.m,
        step_n=instruction.n,
        target=context.target,
        legal=", ".join(map(str, legal)),
    )


def _launched(context: CheckContext) -> tuple[Related, ...]:
    if context.launch is None:
        return ()
    span = keyword_span(context.launch, context.text, "threads")
    return (Related(span, f"the block has {context.threads} threads"),)


def _other_threads(context: CheckContext, counts: Sequence[int]) -> tuple[Fix, ...]:
    """One fix for each count of threads, where the launch gives a number."""
    fixes = []
    for count in counts:
        edit = keyword_edit(context.launch, context.text, "threads", count) if context.launch else None
        if count > 0 and edit is not None:
            fixes.append(Fix(f"Use threads={count}", (edit,)))
    return tuple(fixes)


def _nearest(size: int, step: int) -> str:
    """The multiples of `step` around `size`: `the nearest are 16 and 32`."""
    below = size // step * step
    return f"the nearest are {below} and {below + step}" if below else f"the nearest is {step}"
