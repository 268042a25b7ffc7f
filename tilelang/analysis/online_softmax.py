"""online-softmax: a running maximum, and what is measured against it, no longer belong together.

Softmax over tiles keeps the largest score so far (a tile that begins at minus infinity and takes maxima),
adds up exponentials of score less maximum, and multiplies what it has by exp(old less new maximum) whenever
the maximum grows. All these tiles have one shape, so that nothing but their meaning tells them apart: what is
a maximum, what is a sum of exponentials, what holds the maximum before this step. Nothing is said where what
a tile holds is not known.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.masked_rows import masked_row
from tilelang.analysis.softmax_tiles import (
    Running,
    Softmax,
    Write,
    exponents_of,
    operand_buffer,
    parts_of,
    terms_of,
)
from tilelang.analysis.subject import Subject, soften
from tilelang.diagnostics.problem import Problem, Related
from tilelang.diagnostics.rules.order import (
    MASKED_ROW,
    MAXIMUM_AS_FACTOR,
    MAXIMUM_BEHIND,
    MAXIMUM_BEHIND_LOOP,
    MAXIMUM_OVERWRITTEN,
    NOT_EXPONENTIATED,
    NOT_RESCALED,
    SUM_IN_EXPONENT,
    SUM_TIMES_ITSELF,
)
from tilelang.diagnostics.span import Span
from tilelang.ir.evaluate import is_choice
from tilelang.ir.expressions import without_casts
from tilelang.ir.tile_program import Loop
from tilelang.ir.values import Buffer, Unknown, as_int
from tilelang.ops.reduce import reduced_dim

from tvm import tirx as X  # isort: skip


def check(subject: Subject) -> Iterator[Problem]:
    """One problem for each statement. Silent in kernels without a running maximum."""
    if not subject.program.complete:
        return
    softmax = Softmax(subject)
    if not softmax.running:
        return
    told: set[Span] = set()
    for write, problem in _masked(subject, softmax):
        told.add(problem.span)
        yield soften(problem, write.context)
    for rule in (_in_exponents, _behind, _overwritten, _factors, _not_exponentiated, _not_rescaled):
        for write, problem in rule(softmax):
            if problem.span not in told:
                told.add(problem.span)
                yield soften(problem, write.context)


_Found = Iterator[tuple[Write, Problem]]


def _masked(subject: Subject, softmax: Softmax) -> _Found:
    """A mask that leaves nothing of a row, in kernels that have no answer to a maximum of minus infinity."""
    for running in softmax.running:
        record = running.update.record
        dim = None if record is None else reduced_dim(record)
        if running.scores is None or dim is None or _asked_about(softmax, running):
            continue
        found = masked_row(subject, running.scores, dim)
        if found is not None:
            yield (
                running.update,
                MASKED_ROW.at(
                    found.store.span,
                    related=(Related(running.update.span, f"{running.tile.name} is taken here"),),
                    row=found.row,
                    rows=found.of,
                    maximum=running.tile.name,
                ),
            )


def _asked_about(softmax: Softmax, running: Running) -> bool:
    """Whether a statement chooses by a maximum or by what it is replaced with: `m if m > -inf else 0`."""
    return any(
        softmax.read(part) & softmax.maxima and (is_choice(part) or isinstance(part, X.Max | X.Min))
        for write in softmax.stores
        for part in parts_of(write.value)
    ) or any(w.context.guards for w in softmax.writes[running.tile])


def _in_exponents(softmax: Softmax) -> _Found:
    """A sum of exponentials where scores and maxima belong: `exp(m_old - total)`."""
    for write in softmax.stores:
        for exponent in exponents_of(write.value):
            terms = [b for _, t in terms_of(exponent) if (b := softmax.loaded(t)) is not None]
            wrong = next((b for b in terms if b in softmax.weights), None)
            if wrong is None or len(terms) < 2:
                continue
            last = softmax.writes[wrong][-1]
            yield (
                write,
                SUM_IN_EXPONENT.at(
                    write.span,
                    related=(Related(last.span, f"{wrong.name} is computed here"),),
                    buffer=wrong.name,
                    line=last.span.line,
                ),
            )


def _behind(softmax: Softmax) -> _Found:
    """The maximum before this step, subtracted where the one of this step belongs."""
    for running in softmax.running:
        for old in softmax.tiles:
            saved = _saved(softmax, running, old)
            if saved is None:
                continue
            for write in softmax.stores:
                read = softmax.read(write.value)
                if old not in read or running.tile in read or (running.kept and write.order > saved.order):
                    continue
                related = (
                    Related(saved.span, f"{old.name} is set here"),
                    Related(running.update.span, f"{running.tile.name} grows here"),
                )
                names = {"old": old.name, "maximum": running.tile.name, "line": running.update.span.line}
                if running.loop in write.loops:
                    if write.order > running.update.order and _scores_less(softmax, write, running, old):
                        yield write, MAXIMUM_BEHIND.at(write.span, related=related, **names)
                elif write.order > running.update.order and not _written_between(
                    softmax, old, running.update.order, write.order, running.loop
                ):
                    yield write, MAXIMUM_BEHIND_LOOP.at(write.span, related=related, **names)


def _saved(softmax: Softmax, running: Running, old: Buffer) -> Write | None:
    """The statement that keeps the maximum in `old` before it grows, where nothing else is written there."""
    if old is running.tile:
        return None
    if running.kept is not None:
        return running.kept if old is running.before else None
    writes = [w for w in softmax.writes[old] if not (w.record is not None and w.record.op == "fill")]
    if len(writes) != 1 or softmax.moved(writes[0]) is not running.tile:
        return None
    (saved,) = writes
    return saved if saved.loop is running.loop and saved.order < running.update.order else None


def _scores_less(softmax: Softmax, write: Write, running: Running, old: Buffer) -> bool:
    """Whether a statement takes exponentials of the scores less the old maximum."""
    if running.scores is None or write.context.guards:
        return False
    for exponent in exponents_of(write.value):
        terms = [(sign, softmax.loaded(t)) for sign, t in terms_of(exponent)]
        if (1, running.scores) in terms and (-1, old) in terms:
            return True
    return False


def _written_between(softmax: Softmax, tile: Buffer, first: int, last: int, loop: Loop) -> bool:
    return any(first < w.order < last and loop not in w.loops for w in softmax.writes[tile])


def _overwritten(softmax: Softmax) -> _Found:
    """A sum of exponentials that is written into the running maximum."""
    for running in softmax.running:
        for write in softmax.writes[running.tile]:
            if write.record is not None or running.loop not in write.loops:
                continue
            value = without_casts(write.value)
            sums = softmax.read(value) & softmax.weights if isinstance(value, X.Add | X.Mul) else set()
            if sums and not any(isinstance(part, X.Max) for part in parts_of(value)):
                yield (
                    write,
                    MAXIMUM_OVERWRITTEN.at(
                        write.span,
                        related=(Related(running.update.span, f"{running.tile.name} takes maxima here"),),
                        maximum=running.tile.name,
                        line=running.update.span.line,
                    ),
                )


def _factors(softmax: Softmax) -> _Found:
    """A running maximum, or the one before this step, as a factor of what is added up; what is added up as a
    factor of itself.
    """
    members = {r.tile for r in softmax.running}
    olds = {b for b in softmax.tiles for r in softmax.running if _saved(softmax, r, b) is not None}
    loops = {r.loop for r in softmax.running}
    if not members & _subtracted(softmax):
        return
    for write in softmax.stores:
        target = softmax.targets[write]
        if target in members | olds or not loops & set(write.loops):
            continue
        for product in (p for p in parts_of(write.value) if isinstance(p, X.Mul)):
            sides = [softmax.loaded(v) for v in (product.a, product.b)]
            maximum = next((b for b in sides if b in members | olds), None)
            if maximum is not None and target in sides:
                yield (
                    write,
                    MAXIMUM_AS_FACTOR.at(
                        write.span,
                        related=(Related(softmax.writes[maximum][-1].span, f"{maximum.name} is set here"),),
                        target=target.name,
                        maximum=maximum.name,
                    ),
                )
            elif sides == [target, target] and _adds_a_sum(softmax, write):
                yield write, SUM_TIMES_ITSELF.at(write.span, target=target.name)


def _adds_a_sum(softmax: Softmax, write: Write) -> bool:
    """Whether a statement adds what T.reduce_sum made of a tile."""
    value = without_casts(write.value)
    sides = [softmax.loaded(v) for v in (value.a, value.b)] if isinstance(value, X.Add) else []
    records = [w.record for b in sides if b in softmax.writes for w in softmax.writes[b] if w.record]
    return any(r.op == "reduce" and r.value("kind") == "sum" for r in records)


def _subtracted(softmax: Softmax) -> set[Buffer]:
    """All that is subtracted in exponents."""
    return {
        b
        for write in softmax.stores
        for exponent in exponents_of(write.value)
        for sign, term in terms_of(exponent)
        if sign < 0 and (b := softmax.loaded(term)) is not None
    }


def _not_exponentiated(softmax: Softmax) -> _Found:
    """Scores that are added up as they are, beside sums that are rescaled by exponentials."""
    for running in softmax.running:
        scores = running.scores
        if scores not in softmax.writes or softmax.exponentials_in(scores, running.loop):
            continue
        assert scores is not None
        for part, write in _sums_of(softmax, scores, running):
            for total in softmax.stores:
                value = without_casts(total.value)
                rescaled = running.loop in total.loops and isinstance(value, X.Add)
                if not rescaled or part not in softmax.read(value):
                    continue
                if softmax.targets[total] in softmax.read(value) and any(
                    running.tile in softmax.read(exponent) for exponent in exponents_of(value)
                ):
                    yield (
                        write,
                        NOT_EXPONENTIATED.at(
                            write.span,
                            related=(
                                Related(total.span, f"{part.name} is added to a sum of exponentials here"),
                            ),
                            scores=scores.name,
                            maximum=running.tile.name,
                        ),
                    )


def _sums_of(softmax: Softmax, scores: Buffer, running: Running) -> Iterator[tuple[Buffer, Write]]:
    for tile in softmax.tiles:
        for write in softmax.writes[tile]:
            record = write.record
            if record is None or record.op != "reduce" or record.value("kind") != "sum":
                continue
            if running.loop in write.loops and operand_buffer(record, "buffer") is scores:
                yield tile, write


def _not_rescaled(softmax: Softmax) -> _Found:
    """Products and sums of exponentials over all steps that no statement brings to the new maximum."""
    for running in softmax.running:
        weights = _weights_of(softmax, running)
        for total, write, name in (*_products_of(softmax, weights), *_totals_of(softmax, weights)):
            writes = softmax.writes.get(total)
            if writes is None or running.loop not in write.loops:
                continue
            inside = [w for w in writes if running.loop in w.loops and w is not write]
            if inside or write.loop is not running.loop or not _begun_before(writes, running.loop):
                continue
            yield (
                write,
                NOT_RESCALED.at(
                    write.span,
                    related=(Related(running.update.span, f"{running.tile.name} grows here"),),
                    total=total.name,
                    what=name,
                    maximum=running.tile.name,
                ),
            )


def _begun_before(writes: list[Write], loop: Loop) -> bool:
    """Whether a tile is filled in front of a loop, and so adds up over all of it."""
    return any(w.record is not None and w.record.op == "fill" and loop not in w.loops for w in writes)


def _weights_of(softmax: Softmax, running: Running) -> dict[Buffer, Buffer]:
    """Tiles with exponentials of scores less this maximum, made after it grew; copies of them too."""
    found: dict[Buffer, Buffer] = {}
    for write in softmax.stores:
        if write.loop is not running.loop or write.order < running.update.order:
            continue
        target = softmax.targets[write]
        for exponent in exponents_of(write.value):
            terms = [(sign, softmax.loaded(t)) for sign, t in terms_of(exponent)]
            if (-1, running.tile) in terms and (1, running.scores) in terms and target in softmax.writes:
                found[target] = target
    for tile in softmax.tiles:
        for write in softmax.writes[tile]:
            source = softmax.moved(write)
            if source in found and write.loop is running.loop:
                found[tile] = found[source]
    return found


def _products_of(softmax: Softmax, weights: dict[Buffer, Buffer]) -> Iterator[tuple[Buffer, Write, str]]:
    for write in softmax.products:
        record = write.record
        assert record is not None
        factors = [operand_buffer(record, name) for name in ("A", "B")]
        used = next((b for b in factors if b in weights), None)
        cleared = record.value("clear_accum", False)
        if used is not None and not isinstance(cleared, Unknown) and as_int(cleared) == 0:
            yield softmax.targets[write], write, f"products with {used.name}"


def _totals_of(softmax: Softmax, weights: dict[Buffer, Buffer]) -> Iterator[tuple[Buffer, Write, str]]:
    sums: dict[Buffer, Buffer] = {}
    for tile in softmax.tiles:
        for write in softmax.writes[tile]:
            record = write.record
            if record is None or record.op != "reduce" or record.value("kind") != "sum":
                continue
            source = operand_buffer(record, "buffer")
            if source not in weights:
                continue
            if as_int(record.value("clear", True)) == 0:
                yield tile, write, f"sums of {source.name}"
            else:
                sums[tile] = source
    for write in softmax.stores:
        value, target = without_casts(write.value), softmax.targets[write]
        if isinstance(value, X.Add):
            sides = [softmax.loaded(v) for v in (value.a, value.b)]
            part = next((b for b in sides if b in sums), None)
            if part is not None and target in sides and not write.context.guards:
                yield target, write, f"sums of {sums[part].name}"
