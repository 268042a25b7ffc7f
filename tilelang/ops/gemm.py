"""T.gemm: C += op(A) · op(B) on tiles, with tensor cores where the target has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tilelang.arch.cuda import WGMMA_M
from tilelang.arch.instruction import MatrixInstruction
from tilelang.arch.tables import choose_instruction, features, first_with, matrix_instructions
from tilelang.arch.target import Target
from tilelang.diagnostics.problem import Fix, Problem, Related
from tilelang.diagnostics.rules import dtype as dtype_rules
from tilelang.diagnostics.rules import resource as resource_rules
from tilelang.diagnostics.rules import scope as scope_rules
from tilelang.diagnostics.rules import shape as shape_rules
from tilelang.ir import tile_ops
from tilelang.ir.spans import to_tvm
from tilelang.ir.tile_program import OpRecord
from tilelang.ir.values import Region, Value, as_int, show
from tilelang.layout.warp_partition import WarpPartition, legal_threads, warp_partition, warp_partitions
from tilelang.layout.wgmma_partition import (
    GROUP_THREADS,
    WgmmaOperand,
    hindering_transpose,
    wgmma_k,
    wgmma_partition,
)
from tilelang.ops.build import attributes, operand_region, option
from tilelang.ops.operands import declared, dtype_name, regions, scope_name, shape_text, times
from tilelang.ops.source_edits import (
    append_argument,
    dtype_edit,
    keyword_edit,
    keyword_span,
    rename_callee,
    replace_argument,
    shape_edit,
)
from tilelang.ops.tile_op import CheckContext, Mode, OpDescription, RegionAccess, TileOp, WgmmaChoice

from tvm import ir  # isort: skip
from tvm import tirx as X  # isort: skip


@dataclass(frozen=True, eq=False)
class Gemm:
    """C[M, N] += A[M, K] · B[K, N]; `transpose_a` means A is stored [K, M], `transpose_b` that B is stored
    [N, K].

    `clear_accum` is a boolean expression: start from zero instead of C's contents. `policy` is Square,
    FullRow or FullCol. Leading dimensions of the regions are 1.
    """

    a: Any  # TensorRegion
    b: Any
    c: Any
    transpose_a: bool = False
    transpose_b: bool = False
    policy: str = "Square"
    clear_accum: Any = False
    asynchronous: bool = False  # C is complete after `tl.wgmma_wait` only, where the target can
    span: Any = None

    def call(self) -> Any:
        """The statement `tl.gemm(a, b, c, clear_accum)`."""
        clear = X.const(self.clear_accum, "bool") if isinstance(self.clear_accum, bool) else self.clear_accum
        attrs = {"transpose_a": self.transpose_a, "transpose_b": self.transpose_b, "policy": self.policy}
        attrs["asynchronous"] = self.asynchronous or None
        return X.Evaluate(
            tile_ops.call(tile_ops.GEMM, [self.a, self.b, self.c, clear], attrs, span=self.span), self.span
        )

    @staticmethod
    def read(call: ir.Call) -> Gemm:
        """The operation a `tl.gemm` call stands for."""
        a, b, c, clear = call.args
        return Gemm(a, b, c, **attributes(call), clear_accum=clear, span=call.span)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(M, N, K) of the tile; the extents are compile-time integers by then."""
        c = [int(r.extent) for r in self.c.region][-2:]
        a = [int(r.extent) for r in self.a.region][-2:]
        return c[0], c[1], a[0] if self.transpose_a else a[1]


def accesses(record: OpRecord) -> Sequence[RegionAccess]:
    """A and B are read; C is updated, or only written where `clear_accum` is plainly true."""
    overwrites = as_int(record.value("clear_accum", False)) == 1
    modes: dict[str, Mode] = {"A": "read", "B": "read", "C": "write" if overwrites else "update"}
    return [
        RegionAccess(name, region, mode, region.extents)
        for name, mode in modes.items()
        if (region := record.region(name)) is not None
    ]


def build(record: OpRecord) -> Any:
    """`tl.gemm` over the three regions."""
    regions = [record.region(name) for name in ("A", "B", "C")]
    if any(r is None for r in regions):
        raise ValueError("the operands of T.gemm must be known")
    clear = record.value("clear_accum", False)
    return Gemm(
        *(operand_region(r, r.extents) for r in regions if r is not None),
        transpose_a=bool(as_int(record.value("transpose_A", False))),
        transpose_b=bool(as_int(record.value("transpose_B", False))),
        policy=option(record.value("policy", "Square")),
        clear_accum=clear if as_int(clear) is None else bool(as_int(clear)),
        asynchronous=bool(record.value("asynchronous", False)),
        span=to_tvm(record.span),
    ).call()


_TF32_BY_WGMMA = "TF32: 10 bits of mantissa, the others cut off, accumulated in float32"


@dataclass(frozen=True)
class _Side:
    """One extent of the product as one operand has it: `K` of `B_s`."""

    name: str  # "M", "N", "K"
    argument: str  # "A", "B", "C"
    region: Region
    size: Value
    row: bool  # the last dimension but one, not the last

    @property
    def axis(self) -> int:
        return len(self.region.buffer.shape) - (2 if self.row else 1)


def _sides(
    a: Region, b: Region, c: Region, transpose_a: bool, transpose_b: bool
) -> list[tuple[_Side, _Side]]:
    """The three pairs of extents that must be equal."""
    m, k = reversed(a.extents[-2:]) if transpose_a else a.extents[-2:]
    k2, n = reversed(b.extents[-2:]) if transpose_b else b.extents[-2:]
    m2, n2 = c.extents[-2:]
    return [
        (_Side("K", "A", a, k, transpose_a), _Side("K", "B", b, k2, not transpose_b)),
        (_Side("M", "A", a, m, not transpose_a), _Side("M", "C", c, m2, True)),
        (_Side("N", "B", b, n, transpose_b), _Side("N", "C", c, n2, False)),
    ]


def transpose_options(record: OpRecord) -> tuple[bool, bool] | None:
    """Both transpose options, None if one is not known."""
    options = [record.value(name, False) for name in ("transpose_A", "transpose_B")]
    numbers = [as_int(v) for v in options]
    return None if None in numbers else (bool(numbers[0]), bool(numbers[1]))


def verify(record: OpRecord, context: CheckContext) -> Iterator[Problem]:
    """gemm-shape, gemm-scope, gemm-dtype, gemm-runtime-extent, gemm-tile, thread-count."""
    yield from _check_scopes(record, context)
    yield from _check_dtypes(record, context)
    shapes = list(_check_ranks(record, context))
    yield from shapes
    found, transposes = regions(record, ("A", "B", "C")), transpose_options(record)
    if shapes or found is None or transposes is None:
        return
    pairs = _sides(found[0], found[1], found[2], *transposes)
    wrong = [p for p in pairs if context.prover.equal(p[0].size, p[1].size) is False]
    if wrong:
        yield from _shape_problems(record, found, transposes, wrong, context)
        return
    empty = next((side for side, _ in pairs if context.prover.equal(side.size, 0)), None)
    if empty is not None:
        yield shape_rules.GEMM_EMPTY.at(
            record.span_of(empty.argument),
            related=declared(empty.region.buffer),
            dim=empty.name,
            operand=empty.region.text(),
            shape=shape_text(empty.region.extents),
        )
        return
    runtime = list(_check_runtime(record, pairs, context))
    yield from runtime
    if not runtime:
        yield from _check_tile(record, pairs, context)


def _check_ranks(record: OpRecord, context: CheckContext) -> Iterator[Problem]:
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


def _shape_problems(
    record: OpRecord,
    found: list[Region],
    transposes: tuple[bool, bool],
    wrong: list[tuple[_Side, _Side]],
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


def _allocation_fixes(left: _Side, right: _Side, context: CheckContext) -> tuple[Fix, ...]:
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
        context.prover.equal(x.size, y.size) for x, y in _sides(found[0], found[1], found[2], *transposes)
    )


def may_fit(found: Sequence[Region], transposes: tuple[bool, bool], context: CheckContext) -> bool:
    """Whether no extents of a product are proven unequal: for some sizes it may be one."""
    return all(
        context.prover.equal(x.size, y.size) is not False
        for x, y in _sides(found[0], found[1], found[2], *transposes)
    )


def _shape_problem(
    record: OpRecord, left: _Side, right: _Side, rule: Any, fixes: tuple[Fix, ...] = (), **more: str
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
        **more,
    )


def _check_runtime(
    record: OpRecord, pairs: list[tuple[_Side, _Side]], context: CheckContext
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


def _check_scopes(record: OpRecord, context: CheckContext) -> Iterator[Problem]:
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


def _check_dtypes(record: OpRecord, context: CheckContext) -> Iterator[Problem]:
    a, b, c = (record.region(name) for name in ("A", "B", "C"))
    left, right = (dtype_name(r.buffer) if r is not None else None for r in (a, b))
    if a and b and left and right and left != right and not _may_mix(left, right):
        yield dtype_rules.GEMM_DTYPE.at(
            record.span_of("B"),
            related=declared(a.buffer, b.buffer),
            a=a.buffer.name,
            a_dtype=left,
            b=b.buffer.name,
            b_dtype=right,
        )
        return
    operand, accumulator = left or right, dtype_name(c.buffer) if c is not None else None
    if operand is None or not features(context.target).unit:
        return
    mixed = features(context.target).mixed_operands
    if a and b and left and right and left != right and frozenset((left, right)) not in mixed:
        yield resource_rules.UNSUPPORTED_GEMM_MIX.at(
            record.span_of("B"),
            related=declared(a.buffer, b.buffer),
            a=a.buffer.name,
            a_dtype=left,
            b=b.buffer.name,
            b_dtype=right,
            target=context.target,
        )
        return
    known = matrix_instructions(context.target)
    legal = [acc for i in known if i.operand == operand for acc in i.accumulators]
    if not legal:
        yield _no_instruction(record, operand, known, context.target)
    elif c is not None and accumulator is not None and accumulator not in legal:
        edits = {
            new: dtype_edit(c.buffer.span, context.text, accumulator, new) for new in dict.fromkeys(legal)
        }
        yield dtype_rules.GEMM_ACCUMULATOR.at(
            record.span_of("C"),
            related=declared(c.buffer),
            fixes=tuple(
                Fix(f"Make {c.buffer.name} {new}", (e,)) for new, e in edits.items() if e is not None
            ),
            c=c.buffer.name,
            c_dtype=accumulator,
            operand=operand,
            legal=" or ".join(dict.fromkeys(legal)),
            target=context.target,
        )


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


def _check_tile(
    record: OpRecord, pairs: list[tuple[_Side, _Side]], context: CheckContext
) -> Iterator[Problem]:
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
    pairs: list[tuple[_Side, _Side]], instruction: MatrixInstruction, threads: int, warp: int
) -> bool:
    """Whether so many threads can share out the tile, as far as its size is known."""
    m, n = as_int(pairs[1][0].size), as_int(pairs[2][0].size)
    if m is None or n is None:
        return True
    return bool(warp_partitions(m, n, threads // warp, instruction.m, instruction.n))


def _check_warps(
    record: OpRecord,
    pairs: list[tuple[_Side, _Side]],
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


def describe(record: OpRecord, context: CheckContext) -> OpDescription:
    """`C[128×128] += A[128×32] · B[32×128]`, with the instruction and the warps the lowering will use."""
    found, transposes = regions(record, ("A", "B", "C")), transpose_options(record)
    if found is None or transposes is None or any(len(r.extents) < 2 for r in found):
        return OpDescription("multiplies two tiles", "")
    a, b, c = found
    sides = {left.name: left.size for left, _ in _sides(a, b, c, *transposes)}
    operand, accumulator = dtype_name(a.buffer) or "unknown", dtype_name(c.buffer) or "unknown"
    names = [
        r.buffer.name + ("ᵀ" if flipped else "") for r, flipped in ((a, transposes[0]), (b, transposes[1]))
    ]
    sign = "=" if as_int(record.value("clear_accum", False)) == 1 else "+="
    tile = times([sides["M"], sides["N"], sides["K"]])
    summary = f"{c.buffer.name} {sign} {names[0]} · {names[1]}, M×N×K = {tile}, {operand} → {accumulator}"
    plan = gemm_plan(record, context)
    if plan is None:
        return OpDescription(summary, f"{tile} {operand}")
    notes = [plan.instruction.note, _lost_wgmma(plan, record, context)]
    return OpDescription(summary, f"{tile} {operand}", plan.text, tuple(filter(None, notes)))


def _lost_wgmma(plan: GemmPlan, record: OpRecord, context: CheckContext) -> str:
    """What keeps a gemm from wgmma, where that is the order in which one operand is stored."""
    name = hindering_transpose(plan.operand, (plan.transpose_a, plan.transpose_b))
    if context.wgmma is None or name is None or plan.instruction.name == "wgmma":
        return ""
    turned = (plan.transpose_a and name != "A", plan.transpose_b or name == "B")
    team, b = context.team_of(record), record.region("B")
    if team is None or team.first % GROUP_THREADS or b is None:
        return ""
    shape, right = (plan.m, plan.n, plan.k), dtype_name(b.buffer) or plan.operand
    stored = WgmmaOperand(plan.operand, "shared", (plan.m, plan.k)), WgmmaOperand(right, "shared", shape[1:])
    if wgmma_partition(shape, *stored, plan.accumulator, turned, "Square", team.threads) is None:
        return ""
    wanted = "[M, K]" if name == "A" else "[N, K] with transpose_B=True"
    return f"no wgmma: it takes {plan.operand} operands with K innermost only; store {name} as {wanted}"


@dataclass(frozen=True)
class GemmPlan:
    """How a target carries out one T.gemm: the instruction, and the grid of warps where threads are known."""

    m: int
    n: int
    k: int
    operand: str
    accumulator: str
    transpose_a: bool
    transpose_b: bool
    instruction: MatrixInstruction
    warps: WarpPartition | None

    @property
    def text(self) -> str:
        """The words of `plan_text`."""
        return plan_text(self.instruction, self.operand, self.accumulator, self.warps)


def plan_text(
    instruction: MatrixInstruction, operand: str, accumulator: str, warps: WarpPartition | None
) -> str:
    """`mma.sync m16n8k16 float32.float16, warps 2×2`."""
    text = f"{instruction.name} {instruction.shape_text} {accumulator}.{operand}"
    return text if warps is None else f"{text}, warps {warps}"


def gemm_plan(record: OpRecord, context: CheckContext) -> GemmPlan | None:
    """The plan of a T.gemm whose sizes and dtypes are known; None on targets without matrix instructions."""
    found, transposes = regions(record, ("A", "B", "C")), transpose_options(record)
    if found is None or transposes is None or any(len(r.extents) < 2 for r in found):
        return None
    a, _, c = found
    sides = {left.name: as_int(left.size) for left, _ in _sides(found[0], found[1], found[2], *transposes)}
    m, n, k = sides["M"], sides["N"], sides["K"]
    operand, accumulator = dtype_name(a.buffer), dtype_name(c.buffer)
    if m is None or n is None or k is None or operand is None or accumulator is None:
        return None
    if 0 in (m, n, k):  # a mistake, see `verify`
        return None
    by_wgmma = None if context.wgmma is None else _wgmma(record, (m, n, k), transposes, context)
    if by_wgmma is not None:
        note = _TF32_BY_WGMMA if operand == "float32" else ""
        size = WGMMA_M, n // by_wgmma.n, wgmma_k(operand)
        instruction = MatrixInstruction("wgmma", *size, operand, (accumulator,), note)
        return GemmPlan(m, n, k, operand, accumulator, *transposes, instruction, by_wgmma)
    chosen = choose_instruction(context.target, operand, accumulator, k)
    if chosen is None:
        return None
    warps = None
    threads = context.threads_of(record)
    if threads is not None:
        policy = str(option(record.value("policy", "Square")))
        count = threads // context.target.warp_size
        warps = warp_partition(policy, m, n, count, chosen.m, chosen.n)
    return GemmPlan(m, n, k, operand, accumulator, *transposes, chosen, warps)


def _wgmma(
    record: OpRecord, shape: tuple[int, int, int], transposes: tuple[bool, bool], context: CheckContext
) -> WarpPartition | None:
    """The grid of warps with which wgmma carries out this gemm, None where mma.sync does."""
    found = regions(record, ("A", "B", "C"))
    team = context.team_of(record)
    if found is None or team is None or context.wgmma is None or team.first % GROUP_THREADS:
        return None
    fragments = [r.buffer for r in found if r.buffer.scope == "local.fragment"]
    if found[2].buffer.scope != "local.fragment" or any(b in context.wgmma.refused for b in fragments):
        return None
    operands = [_wgmma_operand(r, context.wgmma) for r in found[:2]]
    policy, accumulator = str(option(record.value("policy", "Square"))), dtype_name(found[2].buffer)
    if operands[0] is None or operands[1] is None or accumulator is None:
        return None
    return wgmma_partition(shape, operands[0], operands[1], accumulator, transposes, policy, team.threads)


def _wgmma_operand(region: Region, choice: WgmmaChoice) -> WgmmaOperand | None:
    buffer, dtype = region.buffer, dtype_name(region.buffer)
    shape = [as_int(n) for n in buffer.shape]
    if dtype is None or None in shape:
        return None
    starts = [as_int(s) for s in region.starts[-2:]] if not region.whole else [0, 0]
    extents = tuple(n for n in shape if n is not None)
    swizzled = buffer.storage not in choice.unswizzled
    return WgmmaOperand(dtype, buffer.scope, extents, (starts[0], starts[1]), swizzled)


GEMM = TileOp("gemm", verify, accesses, describe, build)
