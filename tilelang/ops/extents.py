"""Which elements of its two operands T.copy really touches: the extent rules of the language.

1. Two whole buffers must have equal shapes.
2. A side gives its shape (whole buffer) or its slice lengths. `A[i, j]` means "starting at" and takes its
   extents from the other side, right-aligned and padded with leading ones.
3. If both sides have the same number of non-1 extents, these are matched in order. Otherwise point entries
   beside slices (`A[b, m0:m1, 0]`) are taken as starts too, right-aligned with the other side.
4. The iteration space comes from the side lower in the hierarchy (fragment or local, then shared, then
   global; source on a tie). Nothing is broadcast.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tilelang.ir.prove import Prover
from tilelang.ir.values import Region, Unknown, Value, as_int

LEVEL = {"global": 0, "shared": 1, "local.fragment": 2, "local.reducer": 2, "local": 2, "local.var": 2}


@dataclass(frozen=True)
class Mismatch:
    """Why two extents do not fit. `src_dim` and `dst_dim` are dimensions of the buffers."""

    kind: Literal["shapes", "unmatched", "source-larger", "source-smaller", "shrinks"]
    src_dim: int | None = None
    dst_dim: int | None = None
    src_extent: Value = None
    dst_extent: Value = None


@dataclass(frozen=True)
class CopyExtents:
    """What a copy covers, per dimension of each buffer; at best, where there are `mismatches`."""

    src: tuple[Value, ...]
    dst: tuple[Value, ...]
    mismatches: tuple[Mismatch, ...] = ()

    @property
    def scalar(self) -> bool:
        """Both sides are single elements."""
        return all(as_int(e) == 1 for e in (*self.src, *self.dst))


def copy_extents(src: Region, dst: Region, prover: Prover | None = None) -> CopyExtents:
    """The extents of `T.copy(src, dst)` and every proven misfit; what may be equal is taken as equal."""
    prover = prover or Prover()
    if src.whole and dst.whole:
        return _whole(src, dst, prover)
    if src.is_point and dst.is_point:
        return CopyExtents(tuple(1 for _ in src.starts), tuple(1 for _ in dst.starts))
    if src.is_point:
        placed = _place(dst.extents, len(src.starts))
        if placed is None:
            return _unplaced(src, dst, point_is_src=True)
        return CopyExtents(placed, dst.extents)
    if dst.is_point:
        placed = _place(src.extents, len(dst.starts))
        if placed is None:
            return _unplaced(src, dst, point_is_src=False)
        return CopyExtents(src.extents, placed)
    return _both_sized(src, dst, prover)


def _whole(src: Region, dst: Region, prover: Prover) -> CopyExtents:
    a, b = src.extents, dst.extents
    differ = len(a) != len(b) or any(prover.equal(x, y) is False for x, y in zip(a, b, strict=True))
    found = (Mismatch("shapes"),) if differ else ()
    if found:
        return CopyExtents(a, b, found)
    tile = _iteration(src, dst, a, b)
    return CopyExtents(tile, tile)


def _both_sized(src: Region, dst: Region, prover: Prover) -> CopyExtents:
    a, b = src.extents, dst.extents
    real_a, real_b = real_dimensions(a), real_dimensions(b)
    if len(real_a) != len(real_b):
        promoted = _promote_points(src, dst)
        if promoted is not None and _may_match(*promoted, prover):
            a, b = promoted
            real_a, real_b = real_dimensions(a), real_dimensions(b)
    if len(real_a) != len(real_b):
        return CopyExtents(a, b, tuple(_unmatched(a, b, real_a, real_b, prover)))
    new_a, new_b, found = list(a), list(b), []
    by_dst = side_that_iterates(src, dst) is dst
    for i, j in zip(real_a, real_b, strict=True):
        if prover.less(a[i], b[j]):
            found.append(Mismatch("source-smaller", i, j, a[i], b[j]))
        elif prover.less(b[j], a[i]):
            found.append(Mismatch("source-larger", i, j, a[i], b[j]))
        elif prover.equal(a[i], b[j]) is False:
            found.append(Mismatch("unmatched", i, j, a[i], b[j]))
        elif _shrinks(a[i], b[j], prover):
            found.append(Mismatch("shrinks", i, None, a[i], b[j]))
        elif _shrinks(b[j], a[i], prover):
            found.append(Mismatch("shrinks", None, j, a[i], b[j]))
        new_a[i] = new_b[j] = b[j] if by_dst else a[i]
    return CopyExtents(tuple(new_a), tuple(new_b), tuple(found))


def _shrinks(extent: Value, fixed: Value, prover: Prover) -> bool:
    """Whether a slice is already shorter than a fixed extent in the second iteration of a loop or block: its
    bounds grow at different rates.
    """
    size = as_int(fixed)
    second = None if size is None or as_int(extent) is not None else prover.at_second(extent)
    return second is not None and size is not None and second[1] < size


def _iteration(src: Region, dst: Region, a: tuple[Value, ...], b: tuple[Value, ...]) -> tuple[Value, ...]:
    return b if side_that_iterates(src, dst) is dst else a


def side_that_iterates(src: Region, dst: Region) -> Region:
    """The side that is lower in the hierarchy; the source on a tie."""
    return dst if LEVEL.get(dst.buffer.scope, 0) > LEVEL.get(src.buffer.scope, 0) else src


def real_dimensions(extents: Sequence[Value]) -> list[int]:
    """Positions of the extents that are not known to be 1."""
    return [k for k, e in enumerate(extents) if as_int(e) != 1]


def _place(extents: Sequence[Value], rank: int) -> tuple[Value, ...] | None:
    """`extents` right-aligned in `rank` dimensions, ones added or dropped; None if they do not fit."""
    if len(extents) <= rank:
        return (1,) * (rank - len(extents)) + tuple(extents)
    if all(as_int(e) == 1 for e in extents[: len(extents) - rank]):
        return tuple(extents[len(extents) - rank :])
    kept = [extents[k] for k in real_dimensions(extents)]
    return (1,) * (rank - len(kept)) + tuple(kept) if len(kept) <= rank else None


def _promote_points(src: Region, dst: Region) -> tuple[tuple[Value, ...], tuple[Value, ...]] | None:
    """Right-align both sides; a point entry takes the other side's extent. None if that changes nothing."""
    a, b = list(src.extents), list(dst.extents)
    changed = False
    for k in range(1, min(len(a), len(b)) + 1):
        if as_int(b[-k]) != 1 and _is_point_entry(src, len(a) - k):
            a[-k], changed = b[-k], True
        elif as_int(a[-k]) != 1 and _is_point_entry(dst, len(b) - k):
            b[-k], changed = a[-k], True
    return (tuple(a), tuple(b)) if changed else None


def _may_match(a: Sequence[Value], b: Sequence[Value], prover: Prover) -> bool:
    """Whether the extents other than 1 are as many on both sides and not proven different."""
    real_a, real_b = real_dimensions(a), real_dimensions(b)
    return len(real_a) == len(real_b) and all(
        prover.equal(a[i], b[j]) is not False for i, j in zip(real_a, real_b, strict=True)
    )


def _is_point_entry(region: Region, dim: int) -> bool:
    return region.indices is not None and region.indices[dim].extent is None


def _unplaced(src: Region, dst: Region, *, point_is_src: bool) -> CopyExtents:
    sized = dst if point_is_src else src
    first = real_dimensions(sized.extents)[0]
    extent = sized.extents[first]
    found = (
        Mismatch("unmatched", None, first, None, extent)
        if point_is_src
        else Mismatch("unmatched", first, None, extent, None)
    )
    return CopyExtents(src.extents, dst.extents, (found,))


def _unmatched(
    a: Sequence[Value], b: Sequence[Value], real_a: list[int], real_b: list[int], prover: Prover
) -> list[Mismatch]:
    """The extents that stay alone. Only proven ones: a symbolic extent may turn out to be 1."""
    more, fewer = (a, b) if len(real_a) > len(real_b) else (b, a)
    proven = [k for k in range(len(more)) if _surely_not_one(more[k], prover)]
    spare = [k for k in range(len(fewer)) if as_int(fewer[k]) != 1]
    if len(proven) <= len(spare):
        return []
    k = _odd_one_out(more, proven, [fewer[s] for s in spare], prover)
    if more is a:
        return [Mismatch("unmatched", k, None, a[k], None)]
    return [Mismatch("unmatched", None, k, None, b[k])]


def _odd_one_out(more: Sequence[Value], dims: list[int], others: list[Value], prover: Prover) -> int:
    """The dimension of the longer side that finds no partner when both are matched from the right."""
    left = list(others)
    for k in reversed(dims):
        if left and prover.equal(more[k], left[-1]) is not False:
            left.pop()
        else:
            return k
    return dims[0]


def _surely_not_one(extent: Value, prover: Prover) -> bool:
    return not isinstance(extent, Unknown) and prover.equal(extent, 1) is False
