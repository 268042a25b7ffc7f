"""Check a kernel or a file: every rule over every specialisation, facts and problems together."""

from __future__ import annotations

import ast
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from tilelang.analysis import (
    bank_conflict,
    block_write_race,
    bounds,
    constant_tile,
    crossed_index,
    divergent_barrier,
    endless_wait,
    escaped_values,
    fragment_cross_thread,
    fragment_runtime_extent,
    fragment_serial_access,
    gemm_axes,
    grid_order,
    guard_at_end,
    guard_elsewhere,
    guarded_tail,
    idle_loop,
    implicit_truncation,
    index_width,
    integer_detour,
    local_parallel_index,
    loop_past_end,
    low_occupancy,
    mask_and_loop,
    misplaced_guard,
    misplaced_result,
    missing_dtype,
    missing_on_target,
    missing_pipeline,
    mostly_outside,
    narrow_accumulator,
    negative_index,
    nested_tile_op,
    never_read,
    not_prefetched,
    nothing_written,
    odd_packed_extent,
    one_row_for_all,
    online_softmax,
    output_not_written,
    outside_launch,
    overwritten_in_loop,
    parallel_extent,
    parallel_read_race,
    parallel_reduction_race,
    parallel_write_race,
    partly_read,
    partly_used,
    pipeline_schedule,
    pipelined_write_after_read,
    private_reduction,
    read_before_write,
    reducer_update,
    register_pressure,
    same_in_all_blocks,
    shared_memory_budget,
    short_passes,
    small_gemm_tile,
    stale_tile,
    table_past_end,
    thread_count,
    thread_write_race,
    tile_at_point,
    unbounded_index,
    uncoalesced_access,
    uneven_grid,
    uninitialised_accumulator,
    unmet_expectation,
    unread_tensor,
    unread_write,
    unsupported_nesting,
    unsynchronised_exchange,
    unused_result,
    varying_extent,
    wrong_variable,
)
from tilelang.analysis.kernel_facts import kernel_facts
from tilelang.analysis.launches import launch_by_launch
from tilelang.analysis.subject import Check, Subject, soften
from tilelang.analysis.unknown_specialisation import unknown_values
from tilelang.arch.target import Target, parse_target
from tilelang.diagnostics.problem import Problem, Severity
from tilelang.diagnostics.registry import RULES
from tilelang.diagnostics.rule import Rule
from tilelang.diagnostics.rules.bounds import PARTLY_USED
from tilelang.diagnostics.rules.compat import MISSING_ON_TARGET
from tilelang.diagnostics.rules.internal import INTERNAL_ERROR
from tilelang.diagnostics.rules.python import STEP_LIMIT, UNSUPPORTED_LANGUAGE_NAME
from tilelang.diagnostics.rules.shape import COPY_SHAPE
from tilelang.diagnostics.span import FileText, Span
from tilelang.diagnostics.suppress import apply_ignores, not_silenced
from tilelang.facts.kernel_facts import KernelFacts
from tilelang.facts.reports import FileReport, KernelReport
from tilelang.frontend.environments.specialise import (
    Specialisation,
    chosen_specialisation,
    known_specialisations,
    trace_static,
)
from tilelang.frontend.environments.static_module import KernelSource, StaticModule
from tilelang.ir.tile_program import TileProgram
from tilelang.ops.registry import TILE_OPS

_LOG = logging.getLogger(__name__)

ReportKernel = Callable[[StaticModule, KernelSource, Target], KernelReport]

CHECKS: tuple[Check, ...] = (
    thread_count.check,
    escaped_values.check,
    missing_on_target.check,
    missing_dtype.check,
    odd_packed_extent.check,
    bounds.check_slices,
    tile_at_point.check,
    bounds.check_indices,
    table_past_end.check,
    index_width.check,
    guard_at_end.check,
    misplaced_guard.check,
    guard_elsewhere.check,
    negative_index.check,
    grid_order.check,
    gemm_axes.check,
    partly_used.check,
    short_passes.check,
    misplaced_result.check,
    mostly_outside.check,
    loop_past_end.check,
    mask_and_loop.check,
    guarded_tail.check,
    fragment_runtime_extent.check,
    fragment_cross_thread.check,
    fragment_serial_access.check,
    local_parallel_index.check,
    nested_tile_op.check,
    unsupported_nesting.check,
    divergent_barrier.check,
    unsynchronised_exchange.check,
    unmet_expectation.check,
    endless_wait.check,
    uninitialised_accumulator.check,
    read_before_write.check,
    read_before_write.check_variables,
    output_not_written.check,
    outside_launch.check,
    overwritten_in_loop.check,
    stale_tile.check,
    unused_result.check,
    unused_result.check_variables,
    unread_write.check,
    unread_tensor.check,
    constant_tile.check,
    constant_tile.check_extremes,
    online_softmax.check,
    nothing_written.check,
    idle_loop.check,
    parallel_extent.check,
    pipeline_schedule.check,
    pipelined_write_after_read.check,
    not_prefetched.check,
    parallel_reduction_race.check,
    private_reduction.check,
    parallel_read_race.check,
    parallel_write_race.check,
    thread_write_race.check,
    block_write_race.check,
    same_in_all_blocks.check,
    one_row_for_all.check,
    wrong_variable.check,
    crossed_index.check,
    partly_read.check,
    varying_extent.check,
    unbounded_index.check,
    uneven_grid.check,
    uneven_grid.check_launches,
    shared_memory_budget.check,
    implicit_truncation.check,
    integer_detour.check,
    narrow_accumulator.check,
    reducer_update.check,
    register_pressure.check,
    low_occupancy.check,
    missing_pipeline.check,
    small_gemm_tile.check,
    uncoalesced_access.check,
    bank_conflict.check,
    never_read.check,
)

# About where contents come from and go to, in all launches of a function together.
WHOLE: frozenset[Check] = frozenset(
    {
        uneven_grid.check_launches,
        outside_launch.check,
        uninitialised_accumulator.check,
        read_before_write.check,
        read_before_write.check_variables,
        output_not_written.check,
        overwritten_in_loop.check,
        stale_tile.check,
        unused_result.check,
        unused_result.check_variables,
        unread_write.check,
        constant_tile.check,
        constant_tile.check_extremes,
        nothing_written.check,
        never_read.check,
    }
)

# A rule, the one that says more about a place, and what counts as a place.
FOLLOW_UPS: tuple[tuple[Rule, Rule, Callable[[Span], object]], ...] = (
    # A copy between slices of different sizes leaves some elements out.
    (PARTLY_USED, COPY_SHAPE, lambda span: (span.path, span.line)),
    # What the target lacks is not supported by us either.
    (UNSUPPORTED_LANGUAGE_NAME, MISSING_ON_TARGET, lambda span: span),
)


def check_source(
    path: str, text: str, target: str | Target, report: ReportKernel | None = None
) -> FileReport:
    """All kernels of a file, and what is wrong outside them. Nothing of the file is imported or executed.

    report: what makes the report of one kernel; `check_kernel` by default, `jit.details.detailed_report` to
    lower the kernels too.
    """
    report = report or check_kernel
    module = StaticModule(path, text)
    target = parse_target(target)
    kernels: list[KernelReport] = []
    failed: list[Problem] = []
    for kernel in module.kernels:
        try:
            kernels.append(report(module, kernel, target))
        except RecursionError:
            failed.append(_too_deep(kernel.name_span))
        except Exception as error:  # noqa: BLE001 - the other kernels of the file still get their answer
            failed.append(_internal_error(kernel.name_span, f"of {kernel.qualified_name}", error))
    unsure = [(k.span.line, k.span.end_line) for k in module.kernels]
    if module.tree is not None:  # a macro's comments may be meant for kernels of other files
        unsure += [(n.lineno, n.end_lineno or n.lineno) for n in module.tree.body if _is_definition(n)]
    told = {(p.rule, p.span) for k in kernels for p in k.problems}
    outside = apply_ignores(path, text, module.problems, unsure=unsure)
    outside = [p for p in outside if (p.rule, p.span) not in told]
    return FileReport(path, tuple(kernels), (*outside, *failed))


def check_kernel(
    module: StaticModule,
    kernel: KernelSource,
    target: str | Target,
    choice: Mapping[str, str] | None = None,
) -> KernelReport:
    """Facts of the chosen specialisation, problems of all that the file knows.

    A problem that they all have is kept, one that only some have becomes a warning that names one of them.
    `# tilelang: ignore[...]` comments are applied.
    """
    target = parse_target(target)
    under = specialisations(module, kernel, choice or {})
    programs = [trace_static(module, kernel, specialisation=s) for s in under]
    checked = [check_program(p, compiled_for(p, target), module.text) for p in programs]
    problems = merge(under, [found for _, found in checked])
    problems = unique(
        [*problems, *_of_siblings(module, kernel, target, list(zip(under, programs, strict=True)))]
    )
    problems += unknown_values(module, kernel, choice or {}, programs[0])
    sure = all(program.complete for program in programs)
    return KernelReport(checked[0][0], tuple(_silence(module, kernel, problems, sure)))


def _of_siblings(
    module: StaticModule,
    kernel: KernelSource,
    target: Target,
    traced: Sequence[tuple[Specialisation, TileProgram]],
) -> Iterator[Problem]:
    """Problems of the other kernels that a factory makes. Of one that it does not return only errors: these
    stop `T.prim_func` all the same.
    """
    for which in range(1, 1 + max(p.siblings for _, p in traced)):
        under = [s for s, program in traced if program.siblings >= which]
        programs = [trace_static(module, kernel, specialisation=s, which=which) for s in under]
        checked = [check_program(p, compiled_for(p, target), module.text)[1] for p in programs]
        for problem in merge(under, checked):
            if problem.severity is Severity.ERROR or not programs[0].aside:
                yield problem


def compiled_for(program: TileProgram, target: Target) -> Target:
    """The target that the kernel's decorator names, for which alone it is compiled; else `target`.

    A kind without an architecture leaves the choice to `target` where that is of the kind.
    """
    named = program.target
    if not isinstance(named, str | Mapping | Target) or named == "auto":
        return target
    try:
        own = parse_target(named)
    except ValueError:
        return target
    return target if own.kind == target.kind and named == own.kind else own


def check_program(
    program: TileProgram, target: str | Target, text: str = ""
) -> tuple[KernelFacts, list[Problem]]:
    """Facts and problems of one tile program, the frontend's problems among them.

    `text` is the module's source, which quick fixes read. Problems come in the order of the text.
    """
    text = FileText.of(program.name_span.path, text) if text else text
    subject = Subject(program, parse_target(target), text)
    found = list(program.problems)
    parts = launch_by_launch(subject)
    for part in parts:
        found += _guarded(verify, part)
    wrong = any(p.severity is Severity.ERROR for p in found)
    for check in CHECKS:
        # An operation that is an error may have named the wrong tile, and others do nothing but for it.
        if not (wrong and check is unread_write.check):
            for part in [subject] if check in WHOLE else parts:
                found += _guarded(check, part)
    return kernel_facts(subject), unique(_without_follow_ups(found))


def _without_follow_ups(found: list[Problem]) -> list[Problem]:
    """Without what says nothing more where another rule has told of the place."""
    for rule, better, place in FOLLOW_UPS:
        told = {place(p.span) for p in found if p.rule == better.name}
        found = [p for p in found if p.rule != rule.name or place(p.span) not in told]
    return found


def _guarded(check: Check, subject: Subject) -> list[Problem]:
    """What one check finds; one that fails says so and leaves the others alone."""
    found: list[Problem] = []
    try:
        found.extend(_within(p, subject.program.name_span.path) for p in subject.found(check))
    except RecursionError:
        found.append(_too_deep(subject.program.name_span))
    except Exception as error:  # noqa: BLE001 - whatever it is, the kernel's author still wants the rest
        name = f"{check.__module__.rpartition('.')[2]}.{check.__name__}"
        found.append(_internal_error(subject.program.name_span, name, error))
    return found


def _within(problem: Problem, path: str) -> Problem:
    """The problem without edits of other files than the kernel's: the text that they are made from is its."""
    if all(e.span.path == path for f in problem.fixes for e in f.edits):
        return problem
    fixes = tuple(f for f in problem.fixes if all(e.span.path == path for e in f.edits))
    return replace(problem, fixes=fixes)


def _too_deep(span: Span) -> Problem:
    """The problem for a kernel that is nested deeper than it can be looked through."""
    return STEP_LIMIT.at(span, what="the kernel is nested too deeply")


def _internal_error(span: Span, check: str, error: Exception) -> Problem:
    """The problem for a failure of ours; the log gets the traceback."""
    _LOG.exception("the check %s failed", check)
    words = f"{type(error).__name__}: {error}".partition("\n")[0]
    return INTERNAL_ERROR.at(span, check=check, error=words)


def specialisations(
    module: StaticModule, kernel: KernelSource, choice: Mapping[str, str]
) -> list[Specialisation]:
    """The chosen one first, then the others that the file knows."""
    known = known_specialisations(module, kernel)
    chosen = chosen_specialisation(module, kernel, choice) if choice else known[0]
    return [chosen, *(s for s in known if s.text() != chosen.text())]


def merge(under: Sequence[Specialisation], found: Sequence[list[Problem]]) -> list[Problem]:
    """One list from those found under each specialisation; what only some have becomes a warning."""
    if len(found) == 1:
        return found[0]
    having: dict[tuple[object, ...], list[int]] = {}
    first: dict[tuple[object, ...], Problem] = {}
    for k, problems in enumerate(found):
        for problem in problems:
            key = (problem.rule, problem.span)
            having.setdefault(key, []).append(k)
            first.setdefault(key, problem)
    merged = [
        problem if len(having[key]) == len(found) else _only_with(problem, under, having[key][0])
        for key, problem in first.items()
    ]
    return unique(merged)


def _only_with(problem: Problem, under: Sequence[Specialisation], which: int) -> Problem:
    """A problem that not all specialisations have, with the values under which it appears."""
    others = [dict(s.text()) for k, s in enumerate(under) if k != which]
    telling = [(n, v) for n, v in under[which].text() if any(o.get(n) != v for o in others)]
    where = "with "
    if not telling:  # the sizes that the others have are not given
        own = {n for n, _ in under[which].text()}
        telling = [(n, v) for n, v in next(iter(others), {}).items() if n not in own]
        where = "without "
    values = ", ".join(f"{name}={value}" for name, value in telling)
    severity = Severity.WARNING if problem.severity is Severity.ERROR else problem.severity
    if RULES[problem.rule].family == "performance":  # a tuner tries what is slow too
        severity = Severity.HINT
    return replace(problem, severity=severity, message=f"{where}{values}: {problem.message}")


def _silence(
    module: StaticModule, kernel: KernelSource, problems: list[Problem], sure: bool
) -> list[Problem]:
    """Problems that no comment silences; comments of macros and helpers count, but are never called unused.
    What stands in another file is silenced there, or at the call that leads there.

    Neither are those of a kernel of which parts are not known (`sure` False): the problem may show later.
    """
    first, last = kernel.span.line, kernel.span.end_line
    inside: list[Problem] = []
    outside: list[Problem] = []
    kept: list[Problem] = []
    told: dict[int, Problem] = {}  # a problem as seen from this file, by its id -> as it is
    for problem in problems:
        seen = problem.seen_from(module.path)
        if seen is not problem:
            there = module.environment.files.get(problem.span.path, "")
            if not not_silenced(problem.span.path, there, [problem]):
                continue
        told[id(seen)] = problem
        here = seen.span.path == module.path
        within = here and first <= seen.span.line <= last
        (inside if within else outside if here else kept).append(seen)
    everywhere = [(1, len(module.source.lines))]
    unsure = () if sure else everywhere
    kept += apply_ignores(module.path, module.text, inside, lines=(first, last), unsure=unsure)
    if outside:
        kept += apply_ignores(module.path, module.text, outside, unsure=everywhere)
    return sorted((told.get(id(p), p) for p in kept), key=lambda p: (p.span, p.severity.rank, p.rule))


def _is_definition(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)


def verify(subject: Subject) -> Iterator[Problem]:
    """Each tile operation's own rules."""
    for record in subject.records:
        op = TILE_OPS.get(record.op)
        if op is not None:
            for problem in op.verify(record, subject.context):
                yield soften(problem, record.context)


def unique(problems: Iterable[Problem]) -> list[Problem]:
    """One problem per rule and place, the gravest: a statement traced several times is one mistake."""
    kept: dict[tuple[object, ...], Problem] = {}
    for problem in problems:
        key = (problem.rule, problem.span)
        before = kept.get(key)
        if before is None or problem.severity.rank < before.severity.rank:
            kept[key] = problem
    return sorted(kept.values(), key=lambda p: (p.span, p.severity.rank, p.rule))
