"""From the layout of a loop to that of the fragments it touches and back, and the check that both fit.

A loop's Fragment says which thread runs which iteration; a buffer's which thread holds which element. They
fit if every iteration finds its elements in its own thread.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import ir
from tvm import tirx as X

from tilelang.analysis.affine import affine
from tilelang.analysis.out_of_step import shift
from tilelang.ir.evaluate import NotEvaluable, evaluate
from tilelang.layout.fragment import Digit, Fragment, Place, Replica, built, from_split
from tilelang.layout.views import viewed
from tilelang.passes.layout_sites import Site, Use, around_site
from tilelang.passes.strided_loops import strided_loop
from tilelang.passes.walk import constant, loads, shape_of, variables


def loop_layout(site: Site, use: Use, fragment: Fragment) -> Fragment | None:
    """The loop whose iterations run where `fragment` holds the elements they touch.

    A dimension with a fixed or serial index must lie in registers alone.
    """
    if use.dims == tuple(range(len(site.vars))) and fragment.shape == site.extents:
        return fragment
    if _counts_all(site, use):
        return viewed(fragment, site.extents, 1, 1)
    at = {v: k for k, v in enumerate(use.dims) if v is not None}
    if len(at) < len(site.vars) or len(at) != sum(d is not None for d in use.dims):
        return _displaced(site, use, fragment) or strided_loop(site, use, fragment)
    if any(site.extents[v] < fragment.shape[k] for v, k in at.items()):
        part = _displaced(site, use, fragment)  # registers of a part of the tile, none of them empty
        if part is not None:
            return part
    fixed = {k for k, d in enumerate(use.dims) if d is None}
    split = fragment.by_dimension()
    if split is None or any(dim in fixed and d.place == "thread" for dim, _, d, _ in split):
        return None
    return fragment.select([at[v] for v in range(len(site.vars))], site.extents)


def _counts_all(site: Site, use: Use) -> bool:
    """Whether the loop counts a line of elements one by one, as `f[i * 8 + j]` does."""
    shape = shape_of(use.buffer)
    form = affine(use.indices[0]) if len(use.indices) == 1 and len(site.vars) > 1 else None
    if form is None or form.constant or shape != (math.prod(site.extents),):
        return False
    steps = [math.prod(site.extents[k + 1 :]) for k in range(len(site.vars))]
    counted = [n for n, extent in zip(steps, site.extents, strict=True) if extent > 1]
    own = [form.coefficient(v) for v, extent in zip(site.vars, site.extents, strict=True) if extent > 1]
    return own == counted and len(form.variables) == len([v for v in site.vars if form.coefficient(v)])


def _displaced(site: Site, use: Use, fragment: Fragment) -> Fragment | None:
    """The loop over `f[i, j + 8]` or `f[i, k * 4 + j]`, k serial.

    A displaced dimension lies in registers alone, or the displacement is a multiple of the loop's extent and
    moves in registers alone. Whether all fits is checked afterwards, element by element.
    """
    split = fragment.by_dimension()
    forms = [affine(i) for i in use.indices]
    if split is None or None in forms:
        return None
    entries: list[tuple[int, int, Digit]] = []
    met: set[int] = set()
    for k, form in enumerate(forms):
        digits = sorted(((s, d) for dim, s, d, _ in split if dim == k), key=lambda item: item[0])
        inner = [v for v, var in enumerate(site.vars) if form is not None and form.coefficient(var)]
        in_threads = any(d.place == "thread" for _, d in digits)
        if form is None or len(inner) > 1 or met & set(inner):
            return None
        if not inner:
            if in_threads:
                return None
            continue
        v, extent = inner[0], site.extents[inner[0]]
        met.add(v)
        var = site.vars[v]
        if form.coefficient(var) != 1:
            return None
        if not in_threads:
            first = min((d.place_stride for _, d in digits), default=1)
            entries.append((v, 1, Digit(1, extent, "register", first)))
            continue
        rest = [form.constant, *(form.coefficient(o) for o in form.variables if not o.same_as(var))]
        if any(n % extent for n in rest):
            return None
        for stride, d in digits:
            low = min(d.extent, max(-(-extent // stride), 1))
            if (d.extent % low or low * stride > extent) and stride < extent:
                return None
            if d.place == "thread" and (stride >= extent or low < d.extent):
                return None  # the displacement would move it to other threads
            if stride < extent:
                entries.append((v, stride, replace(d, extent=low)))
    if len(met) < len(site.vars):
        return None
    return from_split(site.extents, entries, fragment.replicate)


def fragment_layout(site: Site, use: Use, loop: Fragment) -> Fragment | None:
    """The fragment that holds its elements where the loop's iterations touch them.

    A dimension with a fixed or serial index goes to registers.
    """
    shape = shape_of(use.buffer)
    if use.dims == tuple(range(len(site.vars))) and shape == loop.shape:
        return loop
    if _counts_all(site, use):
        return viewed(loop, shape, 1, 1)
    used = [d for d in use.dims if d is not None]
    if len(set(used)) != len(used):
        return None
    if site.by_author and any(shift(i, around_site(site)) is not None for i in use.indices):
        return None  # what fragment-cross-thread says, decided by the same function
    grouped = _grouped(site, use, loop)
    if grouped is not None:
        return grouped
    fixed = [k for k, d in enumerate(use.dims) if d is None and shape[k] > 1]
    if not fixed:
        return loop.select(use.dims, shape)
    narrow = tuple(1 if k in fixed else n for k, n in enumerate(shape))
    base = loop.select(use.dims, narrow)
    split = base.by_dimension() if base is not None else None
    if base is None or split is None:
        return None
    entries = [(dim, stride, d) for dim, stride, d, _ in split]
    count = base.registers
    for k in fixed:
        entries.append((k, 1, Digit(1, shape[k], "register", count)))
        count *= shape[k]
    return from_split(shape, entries, base.replicate)


def _grouped(site: Site, use: Use, loop: Fragment) -> Fragment | None:
    """The fragment that a loop touches as `f[i, j // 128]`: the threads of a group of iterations hold its
    element, each a copy. None for other indices.
    """
    handles = {v.__chandle__(): k for k, v in enumerate(site.vars)}
    sizes: dict[int, tuple[int, int]] = {}  # variable -> dimension, how many of its values share an element
    for k, i in enumerate(use.indices):
        size = constant(i.b) if isinstance(i, X.FloorDiv) else 1
        var = i.a if isinstance(i, X.FloorDiv) else i
        v = handles.get(var.__chandle__()) if isinstance(var, ir.Var) else None
        if v is None or v in sizes or not size or size < 1:
            return None
        sizes[v] = k, size
    split = loop.by_dimension()
    if split is None or all(size == 1 for _, size in sizes.values()):
        return None
    entries: list[tuple[int, int, Digit]] = []
    replicas = list(loop.replicate)
    for v, stride, digit, _ in split:
        k, size = sizes.get(v, (0, loop.padded[v] * digit.extent))
        inner = min(digit.extent, -(-size // stride)) if stride < size else 1
        if size % min(stride, size) or stride % min(stride, size) or digit.extent % inner:
            return None
        if stride < size and inner * stride > size:
            return None
        if stride >= size and stride % size:
            return None
        if inner > 1 and digit.place == "thread":
            replicas.append(Replica(inner, digit.place_stride))
        if digit.extent > inner:
            outer = replace(digit, extent=digit.extent // inner, place_stride=digit.place_stride * inner)
            entries.append((k, max(stride * inner // size, 1), outer))
    return from_split(shape_of(use.buffer), entries, replicas)


def gathered(site: Site, use: Use) -> Iterator[Fragment]:
    """Loops whose iterations that touch one element of `use` run in one thread, one after the other.

    Variables that are an index go to threads, `j` in an index `j // 32` in groups of 32 to threads or to
    registers, all others to registers. None for other indices.
    """
    handles = {v.__chandle__(): k for k, v in enumerate(site.vars)}
    groups: dict[int, int] = {}  # variable -> how many of its values share an element
    for i in use.indices:
        size = constant(i.b) if isinstance(i, X.FloorDiv) else 1
        var = i.a if isinstance(i, X.FloorDiv) else i
        v = handles.get(var.__chandle__()) if isinstance(var, ir.Var) else None
        if v is not None and v not in groups and size and size > 0:
            groups[v] = size
        elif not isinstance(i, int) and any(w.__chandle__() in handles for w in variables(i)):
            return
    yield _in_groups(site, groups)
    if any(size > 1 for size in groups.values()):
        yield _in_groups(site, {v: 1 for v, size in groups.items() if size == 1})


def _in_groups(site: Site, groups: Mapping[int, int]) -> Fragment:
    left = site.threads
    digits: list[tuple[int, Place]] = []
    padded: list[int] = []
    for v in reversed(range(len(site.extents))):
        size = min(groups.get(v, site.extents[v]), site.extents[v])
        count, across = -(-site.extents[v] // size), 1
        while across < count and left % (across * 2) == 0:
            across *= 2
        left //= across
        rest = -(-count // across)
        digits.extend([(size, "register"), (across, "thread"), (rest, "register")])
        padded.insert(0, size * across * rest)
    return built(site.extents, tuple(padded), digits, Replica(left, site.threads // left))


def same_places(a: Fragment, b: Fragment) -> bool:
    return (a.shape, a.digits, a.padded, a.replicate) == (b.shape, b.digits, b.padded, b.replicate)


def spread(site: Site, use: Use, fragment: Fragment) -> Fragment | None:
    """A loop over more dimensions than `fragment` has: the others go to its replicas first, then to
    registers.
    """
    at = {v: k for k, v in enumerate(use.dims) if v is not None}
    free = [v for v in range(len(site.vars)) if v not in at]
    split = fragment.by_dimension()
    if (
        len(free) != 1
        or split is None
        or any(d is None and n > 1 for d, n in zip(use.dims, fragment.shape, strict=True))
    ):
        return None
    dim, extent = free[0], site.extents[free[0]]
    back = {k: v for v, k in at.items()}
    registers = fragment.registers
    entries: list[tuple[int, int, Digit]] = [(back[k], s, d) for k, s, d, _ in split if k in back]
    vector = site.vector if dim == len(site.vars) - 1 and extent % site.vector == 0 else 1
    stride = 1
    if vector > 1:
        entries.append((dim, 1, Digit(1, vector, "register", registers)))
        registers *= vector
        stride = vector
    left = []
    for r in sorted(fragment.replicate, key=lambda r: r.stride):
        if stride < extent:
            entries.append((dim, stride, Digit(1, r.extent, "thread", r.stride)))
            stride *= r.extent
        else:
            left.append(r)
    rest = -(-extent // stride)
    if rest > 1:
        entries.append((dim, stride, Digit(1, rest, "register", registers)))
    # Vector lanes must be the lowest registers, so registers are numbered anew with the free dimension's
    # lanes first.
    order = sorted(
        (k for k, e in enumerate(entries) if e[2].place == "register"),
        key=lambda k: (entries[k][0] != dim or entries[k][1] != 1, entries[k][2].place_stride),
    )
    count = 1
    for k in order:
        d, s, digit = entries[k]
        entries[k] = (d, s, replace(digit, place_stride=count))
        count *= digit.extent
    return from_split(tuple(site.extents), entries, left)


def one_element_each(site: Site, use: Use) -> bool:
    """Whether every iteration has an element of its own: each variable stands alone in an index."""
    free = {v.__chandle__() for v in site.vars}
    others = [i for i, d in zip(use.indices, use.dims, strict=True) if d is None and not isinstance(i, int)]
    moved = {v for v, n in enumerate(site.extents) if n > 1}
    return moved <= set(use.dims) and not any(v.__chandle__() in free for i in others for v in variables(i))


def serves(
    loop: Fragment,
    loop_vars: tuple[ir.Var, ...],
    outer: Mapping[int, int],
    indices: tuple[Any, ...],
    fragment: Fragment,
    written: bool,
    value: Any = None,
) -> bool:
    """Whether every iteration finds `fragment[indices]` in its own thread, in the same register in all
    threads; if `written`, every owner runs every iteration that writes it, so that all copies stay equal.
    `value`: what a plain store writes.
    """
    if fragment.replicas == fragment.threads and (not written or loop.replicas == loop.threads):
        return True
    try:
        held = owned_registers(loop, loop_vars, outer, indices, fragment)
    except NotEvaluable:
        return False
    if held is None:
        return False
    thread, register, element, iteration = held
    if not _same_in_all_threads(loop, register):
        return False
    if not written:
        return True
    mark = np.zeros(fragment.table.shape, bool)
    mark[thread, register] = True
    if not (mark == np.isin(fragment.table, np.unique(element))).all():
        return False
    size = math.prod(fragment.shape)
    owners = np.bincount(fragment.table[fragment.table >= 0], minlength=size)
    pairs = np.unique(iteration * size + element) % size  # which iterations write which element
    complete = np.bincount(element, minlength=size) == owners * np.bincount(pairs, minlength=size)
    return bool(complete.all()) or _one_value(value, loop, loop_vars, outer, indices)


def _same_in_all_threads(loop: Fragment, register: np.ndarray) -> bool:
    """Whether the loop's n-th iteration finds its element in one register, whichever thread runs it: no
    register is chosen at run time. `register`: as of `owned_registers`.
    """
    _, position = np.nonzero(loop.table >= 0)
    steps = len(register) // max(len(position), 1)
    at = np.repeat(position, steps) * steps + np.tile(np.arange(steps), len(position))
    chosen = np.zeros(loop.registers * steps, int)
    chosen[at] = register
    return bool((chosen[at] == register).all())


def _one_value(
    value: Any,
    loop: Fragment,
    loop_vars: tuple[ir.Var, ...],
    outer: Mapping[int, int],
    indices: tuple[Any, ...],
) -> bool:
    """Whether all iterations that write an element write the same: then one per copy is enough."""
    if value is None:
        return False
    parts = [i for load in loads(value) for i in load.indices]
    parts += [v for v in _outside_loads(value) if isinstance(v, ir.Var)]
    try:
        env, thread, _ = _iterations(loop, loop_vars, outer, [*indices, *parts])
        at, found = (
            [np.broadcast_to(np.asarray(evaluate(p, env)), thread.shape) for p in values]
            for values in (indices, parts)
        )
    except NotEvaluable:
        return False
    order = np.lexsort(at)
    again = np.all([i[order][1:] == i[order][:-1] for i in at], axis=0)
    return all((f[order][1:] == f[order][:-1])[again].all() for f in found)


def _outside_loads(value: Any) -> list[Any]:
    """The variables of an expression that stand in no index of a load."""
    inside = [v.__chandle__() for load in loads(value) for i in load.indices for v in variables(i)]
    buffers = [load.source.__chandle__() for load in loads(value)]
    left = []
    for var in variables(value):
        handle = var.__chandle__()
        if handle in inside:
            inside.remove(handle)
        elif handle not in buffers:
            left.append(var)
    return left


def owned_registers(
    loop: Fragment,
    loop_vars: tuple[ir.Var, ...],
    outer: Mapping[int, int],
    indices: tuple[Any, ...],
    fragment: Fragment,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
    """(thread, register of `fragment`, flat element, number of the iteration) for every iteration of every
    thread; None if one lies in another thread.

    Raises NotEvaluable if the indices depend on anything but the loop and serial loops of known extents.
    """
    env, thread, iteration = _iterations(loop, loop_vars, outer, indices)
    parts = [np.broadcast_to(np.asarray(evaluate(i, env)), thread.shape) for i in indices]
    inside = np.ones(thread.shape, bool)
    for part, n in zip(parts, fragment.shape, strict=True):
        inside &= (part >= 0) & (part < n)
    if not inside.all():
        return None
    element = np.ravel_multi_index(parts, fragment.shape)
    register = np.broadcast_to(np.asarray(fragment.register(parts)), thread.shape)
    if not (fragment.table[thread, register] == element).all():
        return None
    return thread, register, element, iteration


def _iterations(
    loop: Fragment, loop_vars: tuple[ir.Var, ...], outer: Mapping[int, int], values: Sequence[Any]
) -> tuple[dict[int, Any], np.ndarray, np.ndarray]:
    """What the variables of `values` are in every iteration of every thread, its thread and its number."""
    valid = loop.table >= 0
    thread, _ = np.nonzero(valid)
    iteration = loop.table[valid].astype(np.int64)
    env: dict[int, Any] = {
        v.__chandle__(): x
        for v, x in zip(loop_vars, np.unravel_index(loop.table[valid], loop.shape), strict=True)
    }
    names = {v.__chandle__() for i in values if not isinstance(i, int) for v in variables(i)}
    for handle, extent in outer.items():
        if handle in names and handle not in env:
            count = len(thread)
            thread = np.repeat(thread, extent)
            iteration = np.repeat(iteration, extent) * extent + np.tile(np.arange(extent), count)
            env = {k: np.repeat(x, extent) for k, x in env.items()}
            env[handle] = np.tile(np.arange(extent), count)
    return env, thread, iteration


def partition_plain(shape: tuple[int, ...], threads: int, vector: int, least: int = 1) -> Fragment:
    """The layout of a loop over memory alone: like `partition`, but nothing is done twice.

    Of the widths from `least` to `vector` the one with the least padding is taken, the widest of several.
    """
    total = int(np.prod(shape))
    widths = [w for k in reversed(range(vector.bit_length())) if (w := 1 << k) >= least]
    width = min(widths, key=lambda w: -(-total // (w * threads)) * w)
    rest = -(-total // (width * threads))
    digits: list[Digit] = []
    stride = 1
    places: list[tuple[int, Place, int]] = [
        (width, "register", 1),
        (threads, "thread", 1),
        (rest, "register", width),
    ]
    for extent, place, place_stride in places:
        if extent > 1:
            digits.append(Digit(stride, extent, place, place_stride))
            stride *= extent
    return Fragment(shape, tuple(digits))


def contiguous_registers(loop: Fragment) -> int:
    """How many neighbouring elements of the last dimension lie in neighbouring registers."""
    first = loop.digits[0] if loop.digits else None
    if first is None or first.place != "register" or first.place_stride != 1:
        return 1
    return first.extent
