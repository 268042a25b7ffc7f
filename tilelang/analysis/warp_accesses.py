"""What the threads of one warp touch together, in a T.Parallel loop or in thread code: the ground of rules
about memory access.

Only loops that touch memory alone: where a fragment takes part, its layout decides who does what. Consecutive
iterations go to consecutive threads, as many at a time as the widest access of the loop moves. Thread code is
followed where all threads of the warp come to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from tilelang.analysis.affine import Affine, affine
from tilelang.analysis.subject import Subject
from tilelang.ir.evaluate import NotEvaluable, evaluate
from tilelang.ir.prove import free_vars, substitute
from tilelang.ir.tile_program import Access, Loop
from tilelang.ir.values import Unknown, Value, as_int
from tilelang.ops.operands import dtype_bits, dtype_name

from tvm import ir  # isort: skip
from tvm import tirx as X  # isort: skip

_VECTOR_BYTES = 16
_ROW = 8  # neighbours in a row that are worth a word
_MOST_STEPS = 1 << 15
_ABOUT = 4096  # stands for an extent that is not known: rows of that many elements


@dataclass(frozen=True, eq=False)
class WarpAccess:
    """One access of a loop over `variables`, as the threads of the first warp make it.

    `indices`: of each thread's first element. `strides` of the buffer's dimensions, in elements of `bytes`.
    `width`: elements that a thread moves at a time. `forms`: each index as a sum of variables; none where an
    index is something else. `merges`: a loop around steps along the rows, whose turns a compiler may join.
    `rows`: a loop over one flat number goes along the rows in other iterations.
    """

    access: Access
    variables: tuple[ir.Var, ...]
    indices: tuple[tuple[int, ...], ...]
    strides: tuple[int, ...]
    bytes: int
    width: int
    forms: tuple[Affine, ...]
    merges: bool = False
    rows: bool = False

    def addresses(self) -> list[int]:
        """Each thread's first element in the order of memory, counted from the buffer's beginning."""
        return [sum(i * s for i, s in zip(index, self.strides, strict=True)) for index in self.indices]


def warp_accesses(subject: Subject) -> list[WarpAccess]:
    """All of them in program order, each statement once."""
    found: list[WarpAccess] = []
    for loops, accesses in _nests(subject):
        variables = tuple(v for loop in loops for v in loop.vars)
        extents = [as_int(e) for loop in loops for e in loop.extents]
        sizes = [e for e in extents if e is not None]
        if len(sizes) != len(extents) or prod(sizes) < subject.target.warp_size:
            continue
        starts = [as_int(m) for loop in loops for m in loop.mins]
        if any(s != 0 for s in starts) or any(a.buffer.scope == "local.fragment" for a in accesses):
            continue
        formed = [(a, _forms(subject, a)) for a in accesses if a.buffer.scope in ("global", "shared")]
        widest = max((_width(a, f, variables, sizes) for a, f in formed if f is not None), default=1)
        width = _least_padding(prod(sizes), widest, subject.threads)
        lanes = [_unravel(t * width, sizes) for t in range(subject.target.warp_size)]
        for access, forms in formed:
            size = _element_bytes(access)
            if size is None or prod(sizes) < width * subject.target.warp_size:
                continue
            if forms is None:
                if width > 1:
                    continue
                given = {v: np.array([x[k] for x in lanes]) for k, v in enumerate(variables)}
                places = _evaluated(subject, access, given)
                if places is not None:
                    rows = _fills_rows(subject, access, variables, sizes)
                    found.append(
                        WarpAccess(access, variables, places, _strides(access), size, 1, (), rows=rows)
                    )
                continue
            # Per dimension: its constant, and the coefficients of the variables that it depends on.
            plain = [
                (f.constant, [(k, c) for k, v in enumerate(variables) if (c := f.coefficient(v))])
                for f in forms
            ]
            indices = tuple(
                tuple(constant + sum([c * lane[k] for k, c in terms]) for constant, terms in plain)
                for lane in lanes
            )
            own = min(width, _width(access, forms, variables, sizes))
            found.append(WarpAccess(access, variables, indices, _strides(access), size, own, forms))
    return [*found, *_by_threads(subject)]


def _by_threads(subject: Subject) -> Iterator[WarpAccess]:
    """Accesses of thread code: at indices made of the thread's number, where no condition parts the warp."""
    launch = subject.launch
    if launch is None or launch.threads is None or prod(launch.threads) < subject.target.warp_size:
        return
    variables = launch.thread_vars
    lanes = [_unravel(t, launch.threads[::-1])[::-1] for t in range(subject.target.warp_size)]
    given = {v: np.array([x[k] for x in lanes]) for k, v in enumerate(variables)}
    for access in subject.program.accesses:
        size = _element_bytes(access)
        loops = access.context.loops
        if access.buffer.scope not in ("global", "shared") or size is None:
            continue
        if any(loop.kind in ("Parallel", "vectorized") for loop in loops):
            continue
        if any(_parts(subject, g.condition, variables) for g in access.context.guards):
            continue
        if any(_parts(subject, e, variables) for loop in loops for e in (*loop.mins, *loop.extents)):
            continue
        if not any(_parts(subject, i.start, variables) for i in access.indices):
            continue
        places = _evaluated(subject, access, given)
        if places is not None:
            last = affine(access.indices[-1].start)
            steps = [v for loop in loops for v in loop.vars if last is None or last.coefficient(v)]
            yield WarpAccess(access, variables, places, _strides(access), size, 1, (), bool(steps))


def _parts(subject: Subject, value: object, variables: Sequence[ir.Var]) -> bool:
    """Whether a value may differ between threads; what is read from memory may."""
    if isinstance(value, Unknown):
        return True
    pending, seen = list(free_vars(value)), set()
    while pending:
        var = pending.pop()
        if var in variables or X.is_buffer_var(var):
            return True
        if var not in seen and var in subject.definitions:
            pending.extend(free_vars(subject.definitions[var]))
        seen.add(var)
    return False


def _evaluated(
    subject: Subject, access: Access, given: Mapping[ir.Var, np.ndarray]
) -> tuple[tuple[int, ...], ...] | None:
    """The indices of the threads, from the first one's; None if they hang on what else is in them."""
    starts = [i.start for i in access.indices]
    if any(isinstance(s, Unknown) for s in starts) or len(starts) != len(access.buffer.shape):
        return None
    seen = []
    for other in (1, 2):
        env: dict[int, object] = {v.__chandle__(): x for v, x in given.items()}
        try:
            with np.errstate(divide="ignore"):
                columns = [_value(subject, s, env, other) for s in starts]
        except NotEvaluable:
            return None
        lanes = len(next(iter(given.values())))
        table = [np.broadcast_to(np.asarray(c), (lanes,)) for c in columns]
        seen.append(tuple(tuple(int(c[k] - c[0]) for c in table) for k in range(lanes)))
    return seen[0] if seen[0] == seen[1] else None


def _value(subject: Subject, value: object, env: dict[int, object], other: int) -> object:
    """A value under `env`, to which names that stand for arithmetic are added; blocks, loops and sizes, which
    are the same for all threads, are `other`.
    """
    for var in free_vars(value):
        if var.__chandle__() in env:
            continue
        meaning = subject.definitions.get(var)
        uniform = var in subject.ranges or any(s.var.same_as(var) for s in subject.program.symbols)
        if meaning is None and not uniform:
            raise NotEvaluable(str(var.name))
        env[var.__chandle__()] = other if meaning is None else _value(subject, meaning, env, other)
    return evaluate(value, env)


def _nests(subject: Subject) -> Iterator[tuple[tuple[Loop, ...], list[Access]]]:
    """Directly nested Parallel loops, and what stands in them, guards included."""
    found: dict[tuple[int, ...], tuple[tuple[Loop, ...], list[Access]]] = {}
    for access in subject.program.accesses:
        loops = tuple(loop for loop in access.context.loops if loop.kind == "Parallel")
        if loops:
            key = tuple(id(loop) for loop in loops)
            found.setdefault(key, (loops, []))[1].append(access)
    yield from found.values()


def _fills_rows(subject: Subject, access: Access, variables: Sequence[ir.Var], sizes: Sequence[int]) -> bool:
    """Whether a loop over one flat number, which `//` and `%` take apart, goes along the rows too."""
    if len(variables) != 1 or sizes[0] > _MOST_STEPS or access.context.loops[-1].kind != "Parallel":
        return False
    places = _evaluated(subject, access, {variables[0]: np.arange(sizes[0])})
    return places is not None and len({place[-1] for place in places}) >= _ROW


def _forms(subject: Subject, access: Access) -> tuple[Affine, ...] | None:
    """Each index as a sum; in i * N + j an N that is not known stands for rows of that many elements."""
    forms = [_form(subject, i.start) if not isinstance(i.start, Unknown) else None for i in access.indices]
    known = tuple(f for f in forms if f is not None)
    return known if len(known) == len(access.buffer.shape) == len(forms) else None


def _form(subject: Subject, start: Value) -> Affine | None:
    form = affine(start)
    if form is not None or not isinstance(start, ir.Expr):
        return form
    sizes = {s.var: _ABOUT for s in subject.program.symbols if s.var in free_vars(start)}
    return affine(substitute(start, sizes)) if sizes else None


def _width(access: Access, forms: Sequence[Affine], variables: Sequence[ir.Var], sizes: Sequence[int]) -> int:
    """Elements that one thread moves at a time: a power of two of at most 16 bytes."""
    inner, size = variables[-1], _element_bytes(access)
    if not forms:  # a tensor without dimensions
        return 1
    if size is None or forms[-1].coefficient(inner) != 1 or any(f.coefficient(inner) for f in forms[:-1]):
        return 1
    width = max(1, _VECTOR_BYTES // size)
    while width > 1 and (sizes[-1] % width or prod(sizes) % width):
        width //= 2
    return width


def _least_padding(total: int, widest: int, threads: int | None) -> int:
    """The width up to `widest` that leaves the fewest iterations of the block idle, the widest of several."""
    count = threads or 1
    widths = [1 << k for k in reversed(range(widest.bit_length()))]
    return min(widths, key=lambda w: -(-total // (w * count)) * w)


def _element_bytes(access: Access) -> int | None:
    bits = dtype_bits(dtype_name(access.buffer))
    return None if bits is None or bits < 8 else bits // 8


def _strides(access: Access) -> tuple[int, ...]:
    given = access.buffer.strides
    if given is not None:
        return tuple(as_int(s) or _ABOUT for s in given)
    strides, step = [], 1
    for extent in reversed(access.buffer.shape):
        strides.insert(0, step)
        number = None if isinstance(extent, Unknown) else as_int(extent)
        step *= number if number is not None else _ABOUT
    return tuple(strides)


def _unravel(flat: int, sizes: Sequence[int]) -> tuple[int, ...]:
    found = []
    for size in reversed(sizes):
        found.insert(0, flat % size)
        flat //= size
    return tuple(found)
