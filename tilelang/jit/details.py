"""What only lowering knows of a kernel, put into the report of its analysis: for editors, not for the JIT.

In:  a kernel of a module that nothing of is imported, and the report that analysis makes of it.
Out: the same report with the layout and the registers of every fragment, the instruction of every tile
     operation and the exact shared memory of the block, with the problems that only lowering meets, and with
     those that the sizes of a call of the file have.
Not: guesses. A kernel with errors, with parts that are not known, or that lowering fails at keeps its report
     as it is; so does each buffer and operation that the answer of lowering does not name beyond doubt.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from math import prod

from tilelang.analysis.check import check_kernel, check_program, compiled_for, merge, specialisations, unique
from tilelang.arch.target import Target, parse_target
from tilelang.diagnostics.error import KernelError
from tilelang.diagnostics.problem import Problem, Severity
from tilelang.diagnostics.registry import RULES
from tilelang.diagnostics.rules.layout import FRAGMENT_RUNTIME_EXTENT
from tilelang.diagnostics.suppress import apply_ignores
from tilelang.facts.kernel_facts import BufferFact, KernelFacts, LaunchFact, OpFact
from tilelang.facts.reports import KernelReport
from tilelang.frontend.environments.specialise import Specialisation, trace_static, with_call_sizes
from tilelang.frontend.environments.static_module import KernelSource, StaticModule
from tilelang.ir.build import build_prim_func
from tilelang.ir.prove import free_vars
from tilelang.ir.tile_program import Do, TileProgram, walk
from tilelang.ops.operands import dtype_bits
from tilelang.ops.registry import TILE_OPS
from tilelang.passes.accesses import accesses
from tilelang.passes.parallel_loop import in_memory
from tilelang.passes.walk import bits_of
from tilelang.passes.walk import walk as statements
from tilelang.targets import driver
from tilelang.targets.lowered import LoweredKernel

from tvm import tirx as X  # isort: skip

_LOG = logging.getLogger(__name__)

# A size that every usual tile and vector divides. A problem that shows both with sizes that are not known and
# with this one does not come from the sizes.
_EVEN_SIZE = 4096
_MOST_STATEMENTS = 2000  # of a kernel that is lowered for what it tells: more take longer than one waits
_EVEN_TILE = 128  # of tiles: a block holds several dimensions of that size, and lowers them quickly


@dataclass(frozen=True)
class _Lowered:
    """One specialisation lowered: the sizes that a call of the file gave, and the kernel or the problems."""

    program: TileProgram
    sizes: tuple[tuple[str, str], ...]
    kernel: LoweredKernel | None
    problems: tuple[Problem, ...] = ()


class _LoweringFailed(Exception):
    """Lowering has a bug, which is the cause. Told where code is asked for, only logged while typing."""


def detailed_report(
    module: StaticModule,
    kernel: KernelSource,
    target: str | Target,
    choice: Mapping[str, str] | None = None,
) -> KernelReport:
    """The report of `check_kernel`, with what lowering adds. Parameters are those of `check_kernel`."""
    steps = detail_steps(module, kernel, target, choice)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def detail_steps(
    module: StaticModule,
    kernel: KernelSource,
    target: str | Target,
    choice: Mapping[str, str] | None = None,
) -> Generator[None, None, KernelReport]:
    """`detailed_report` in steps, between which it may be given up: one per specialisation."""
    target = parse_target(target)
    report = check_kernel(module, kernel, target, choice)
    if any(p.severity is Severity.ERROR for p in report.problems):
        return report
    under = specialisations(module, kernel, choice or {})
    lowered: list[_Lowered | None] = []
    failures = 0
    for specialisation in under:
        yield
        try:
            lowered.append(_lower(module, kernel, target, specialisation))
        except _LoweringFailed as failure:
            if failures == 0:  # the others fail alike; the caller keeps the report, so each text says it once
                _LOG.warning("%s cannot be lowered for %s", kernel.qualified_name, target, exc_info=failure)
            failures += 1
            lowered.append(None)
    found = merge(under, [list(one.problems) if one is not None else [] for one in lowered])
    everywhere = [(1, len(module.source.lines))]
    kept = apply_ignores(module.path, module.text, found, unsure=everywhere)
    chosen = lowered[0]
    facts = report.facts
    if chosen is not None and chosen.kernel is not None:
        facts = with_lowered(facts, chosen.program, chosen.kernel, chosen.sizes)
    return KernelReport(facts, tuple(unique([*report.problems, *kept])))


def _lower(
    module: StaticModule, kernel: KernelSource, target: Target, under: Specialisation
) -> _Lowered | None:
    """The kernel lowered under one specialisation, with the sizes of a call of the file where there is one.

    None where nothing can be said: parts are not known, or it has errors of its own. Raises _LoweringFailed.
    """
    program = trace_static(module, kernel, specialisation=under)
    target = compiled_for(program, target)
    sized = with_call_sizes(under, program)
    sizes = sized.text()[len(under.text()) :]
    noted: tuple[Problem, ...] = ()
    if sizes:
        program = trace_static(module, kernel, specialisation=sized)
        noted = _at_call(program, target, module.text, sizes)
    answer = _lower_program(program, target, module.text)
    if not isinstance(answer, list):
        return _Lowered(program, sizes, answer, noted) if answer is not None or noted else None
    open_sizes = [s.name for s in program.symbols if s.kind == "const"]
    if open_sizes:
        of_tiles = _names_in_tiles(program)
        again = None
        for usual in (_EVEN_SIZE, _EVEN_TILE):  # a smaller one where the first goes out of bounds
            even = tuple((n, _EVEN_TILE if n in of_tiles else usual) for n in open_sizes)
            trial = trace_static(module, kernel, specialisation=replace(sized, values=(*sized.values, *even)))
            again = _lower_program(trial, target, module.text)
            if again is not None:
                break
        if isinstance(again, LoweredKernel) and of_tiles & set(open_sizes):
            answer = []  # layouts of tiles of open width are none that a call gets
        sure = {(p.rule, p.span) for p in again} if isinstance(again, list) else set()
        # That a size is known only at run time is false for what has a number once a call gives one.
        answer = [p for p in answer if p.rule != FRAGMENT_RUNTIME_EXTENT.name or (p.rule, p.span) in sure]
        answer = [p if (p.rule, p.span) in sure else replace(p, severity=Severity.HINT) for p in answer]
    return _Lowered(program, sizes, None, (*noted, *(_placed(p, program) for p in answer)))


def _names_in_tiles(program: TileProgram) -> set[str]:
    """Constants that are the extent of a tile."""
    tiles = [b for b in program.buffers if b.scope != "global"]
    inside = {v for b in tiles for d in b.shape for v in free_vars(d)}
    return {s.name for s in program.symbols if s.var in inside}


def _at_call(
    program: TileProgram, target: Target, text: str, sizes: tuple[tuple[str, str], ...]
) -> tuple[Problem, ...]:
    """What is wrong with the sizes of a call of the file: warnings that name them, since others may fit; and
    what is slow with them.
    """
    _, problems = check_program(program, target, text)
    given = ", ".join(f"{name}={value}" for name, value in sizes)
    return tuple(
        replace(
            p,
            severity=Severity.WARNING if p.severity is Severity.ERROR else p.severity,
            message=f"with {given}: {p.message}",
        )
        for p in problems
        if p.severity in (Severity.ERROR, Severity.WARNING) or RULES[p.rule].family == "performance"
    )


def _lower_program(program: TileProgram, target: Target, text: str) -> LoweredKernel | list[Problem] | None:
    """The lowered kernel, or the problems that lowering meets; None where it cannot be tried.

    Raises _LoweringFailed.
    """
    if not program.complete:
        return None
    if sum(1 for _ in walk(program.body)) > _MOST_STATEMENTS:
        return None
    _, problems = check_program(program, target, text)
    if any(p.severity is Severity.ERROR for p in problems):
        return None
    try:
        func = build_prim_func(program, {name: op.build for name, op in TILE_OPS.items()})
        return driver.lower(func, target)
    except KernelError as error:
        return list(error.problems)
    except Exception as error:
        raise _LoweringFailed(f"{type(error).__name__}: {error}") from error


def _placed(problem: Problem, program: TileProgram) -> Problem:
    """A problem without a place of its own stands at the kernel's name."""
    nowhere = problem.span.path == "<kernel>" or problem.span == program.span
    return replace(problem, span=program.name_span) if nowhere else problem


def with_lowered(
    facts: KernelFacts,
    program: TileProgram,
    lowered: LoweredKernel,
    sizes: tuple[tuple[str, str], ...] = (),
) -> KernelFacts:
    """`facts` of `program` with what `lowered`, the same program, decided.

    sizes: what a call of the file binds, which the program was lowered with and the facts leave open.
    """
    names = Counter(b.name for b in facts.buffers)
    # On the CPU tiles are scratch memory of the caller's; nothing of a block is shared.
    on_cpu = lowered.target.kind == "cpu"
    return replace(
        facts,
        buffers=tuple(_buffer(b, lowered) if names[b.name] == 1 else b for b in facts.buffers),
        ops=tuple(map(_instructions(facts, program, lowered), facts.ops)),
        shared_bytes=facts.shared_bytes if on_cpu else lowered.plan.shared_bytes,
        shared_exact=facts.shared_exact or not on_cpu,
        launch=_launch(facts.launch, lowered),
        lowered_with=sizes,
    )


def _launch(launch: LaunchFact | None, lowered: LoweredKernel) -> LaunchFact | None:
    if launch is None or launch.threads is None or lowered.parts:
        return launch
    threads = prod(lowered.plan.threads)
    return replace(launch, fetching=max(0, threads - launch.threads), notes=lowered.notes)


def _buffer(buffer: BufferFact, lowered: LoweredKernel) -> BufferFact:
    layout = lowered.layouts.get(buffer.name)
    if buffer.scope not in ("shared", "fragment") or layout is None:
        return buffer
    if buffer.scope == "shared":
        return replace(buffer, layout=layout)
    elements, bits = lowered.registers.get(buffer.name), dtype_bits(buffer.dtype)
    registers = None if elements is None or bits is None else -(-elements * bits // 32)
    # What a gemm imposes has a name, which says more than the numbers of elements and threads.
    return replace(buffer, layout=buffer.layout or layout, registers_per_thread=registers)


def _instructions(
    facts: KernelFacts, program: TileProgram, lowered: LoweredKernel
) -> Callable[[OpFact], OpFact]:
    """Puts in the instruction of an operation that was traced once, and how wide a copy that is alone on its
    line moves.
    """
    on_line = Counter(op.span.line for op in facts.ops)
    traced = Counter(node.record.span for node in walk(program.body) if isinstance(node, Do))

    moves = _moves(lowered)

    def put(op: OpFact) -> OpFact:
        made = lowered.instructions.get(op.span)
        if made is None and op.op == "copy" and on_line[op.span.line] == 1:
            made = moves.get(op.span.line)
        if made is None or traced[op.span] != 1 or op.span.path != facts.span.path:
            return op
        return replace(op, instruction=_together(op.instruction, made))

    return put


def _moves(lowered: LoweredKernel) -> dict[int, str]:
    """Python line -> how wide its loads and stores are, `16-byte loads, 4-byte stores`, as they are emitted.

    Lines that read or write several tiles, or with several widths, are left out.
    """
    if lowered.target.kind == "cpu":
        return {}  # LLVM chooses
    widths: dict[int, dict[str, set[tuple[int, int]]]] = {}
    for stmt in statements(lowered.func.body):
        if not isinstance(stmt, X.BufferStore | X.Bind) or stmt.span is None:
            continue
        for access in accesses(stmt):
            if in_memory(access.buffer):
                at = access.element.indices[0]
                lanes = int(at.lanes) if isinstance(at, X.Ramp) else 1
                width = (access.buffer.__chandle__(), lanes * bits_of(str(access.buffer.dtype)))
                widths.setdefault(int(stmt.span.line), {}).setdefault(access.mode, set()).add(width)
    found = {}
    for line, modes in widths.items():
        if all(len(w) == 1 and next(iter(w))[1] % 8 == 0 for w in modes.values()):
            sizes = {mode: next(iter(w))[1] // 8 for mode, w in modes.items()}
            words = (("read", "loads"), ("write", "stores"))
            found[line] = ", ".join(f"{sizes[mode]}-byte {word}" for mode, word in words if mode in sizes)
    return found


def _together(known: str | None, made: str) -> str:
    """The parts of both where they agree: `mma.sync m16n8k16 float32.float16, ldmatrix, warps 2×2`."""
    if known is None:
        return made
    left, parts = known.split(", "), made.split(", ")
    if not left[0].startswith(parts[0]):
        return made
    more = [p for p in parts[1:] if p not in left]
    return ", ".join([left[0], *more, *left[1:]])
