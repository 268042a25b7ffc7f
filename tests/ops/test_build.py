"""Records to `tl.*` calls and back: what is built reads as what was written."""

from __future__ import annotations

import pytest

from tests.ir.hand_made import buffer, record, start, whole
from tilelang.language.tile_ops import GemmWarpPolicy
from tilelang.ops.copy import Copy
from tilelang.ops.fill import Fill
from tilelang.ops.gemm import Gemm
from tilelang.ops.reduce import Reduce
from tilelang.ops.registry import TILE_OPS


def built(op: str, **operands: object):
    return TILE_OPS[op].build(record(op, 7, **operands).record)


def extents(region: object) -> list[int]:
    return [int(r.extent) for r in region.region]  # type: ignore[attr-defined]


def test_copy_covers_the_tile_on_both_sides():
    a, s = buffer("A", (512, 512), "float16", "global", 1), buffer("s", (64, 32), "float16", "shared", 2)
    read = Copy.read(built("copy", src=start(a, 3, 4), dst=whole(s), coalesced_width=8).value)
    assert extents(read.src) == extents(read.dst) == [64, 32]
    assert (read.coalesced_width, read.disable_tma, read.span.line) == (8, False, 7)


def test_copy_of_two_elements_is_a_store_with_a_cast():
    a, b = buffer("A", (8,), "float16", "global", 1), buffer("B", (8,), "float32", "global", 2)
    store = built("copy", src=start(a, 3), dst=start(b, 4))
    assert type(store).__name__ == "BufferStore"
    assert str(store.value.ty) == "float32"


def test_fill_converts_its_value():
    f = buffer("f", (8,), "float16", "local.fragment", 1)
    assert str(Fill.read(built("fill", buffer=whole(f), value=3).value).value.ty) == "float16"
    assert float(Fill.read(built("fill", buffer=whole(f)).value).value.value) == 0.0


@pytest.mark.parametrize("policy", [GemmWarpPolicy.FullCol, "FullCol"])
def test_gemm_keeps_its_options(policy: object):
    a, b = (buffer(n, (32, 64), "float16", "shared", 1) for n in "ab")
    c = buffer("c", (64, 32), "float32", "local.fragment", 2)
    call = built(
        "gemm", A=whole(a), B=whole(b), C=whole(c), transpose_A=True, policy=policy, clear_accum=True
    )
    read = Gemm.read(call.value)
    assert (read.transpose_a, read.transpose_b, read.policy, bool(read.clear_accum)) == (
        True,
        False,
        "FullCol",
        True,
    )
    assert read.shape == (64, 32, 32)


@pytest.mark.parametrize(("dim", "expected"), [(-1, 1), (0, 0), (1, 1), (-2, 0)])
def test_reduce_counts_its_dimension_from_zero(dim: int, expected: int):
    s, r = (
        buffer("s", (64, 64), "float32", "local.fragment", 1),
        buffer("r", (64,), "float32", "local.fragment", 2),
    )
    read = Reduce.read(built("reduce", buffer=whole(s), out=whole(r), dim=dim, kind="max", clear=False).value)
    assert (read.dim, read.kind, read.clear) == (expected, "max", False)


def test_accesses_say_who_reads_and_who_writes():
    a, b = (buffer(n, (64, 64), "float16", "shared", 1) for n in "ab")
    c = buffer("c", (64, 64), "float32", "local.fragment", 2)
    modes = {
        clear: [x.mode for x in TILE_OPS["gemm"].accesses(_gemm(a, b, c, clear))] for clear in (False, True)
    }
    assert modes == {False: ["read", "read", "update"], True: ["read", "read", "write"]}


def _gemm(a: object, b: object, c: object, clear: bool):
    return record("gemm", 1, A=whole(a), B=whole(b), C=whole(c), clear_accum=clear).record  # type: ignore[arg-type]
