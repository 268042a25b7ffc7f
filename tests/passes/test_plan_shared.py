"""Shared buffers share bytes only across a barrier, and never otherwise."""

from __future__ import annotations

from typing import Any

from tvm import tirx as X

from tilelang.ir import tile_ops
from tilelang.passes.plan_shared import Arena, apart, plan_shared


def buffer(name: str, count: int = 256) -> Any:
    return X.decl_buffer((count,), "float32", name, scope="shared")


def touch(b: Any) -> Any:
    return X.BufferStore(b, X.const(0, "float32"), [X.const(0, "int32")])


BARRIER = X.Evaluate(tile_ops.call(tile_ops.SYNC, []))


def placed(*stmts: Any, buffers: list[Any]) -> tuple[Arena, list[int]]:
    arena = plan_shared(X.SeqStmt([*(X.AllocBuffer(b) for b in buffers), *stmts]), {})
    return arena, [arena.offsets[b.__chandle__()] for b in buffers]


def test_a_barrier_between_them_lets_two_share() -> None:
    a, b = buffer("a"), buffer("b")
    arena, offsets = placed(touch(a), BARRIER, touch(b), buffers=[a, b])
    assert offsets == [0, 0] and arena.bytes == 1024


def test_without_a_barrier_they_lie_apart() -> None:
    a, b = buffer("a"), buffer("b")
    arena, offsets = placed(touch(a), touch(b), buffers=[a, b])
    assert sorted(offsets) == [0, 1024] and arena.bytes == 2048


def test_a_barrier_inside_a_loop_divides_nothing() -> None:
    a, b = buffer("a"), buffer("b")
    k = X.Var("k", "int32")
    loop = X.For(k, 0, 4, X.ForKind.SERIAL, X.SeqStmt([touch(a), BARRIER, touch(b)]))
    _, offsets = placed(loop, buffers=[a, b])
    assert sorted(offsets) == [0, 1024]


def test_a_buffer_used_again_later_keeps_its_bytes() -> None:
    a, b, c = buffer("a"), buffer("b"), buffer("c")
    arena, offsets = placed(touch(a), BARRIER, touch(b), BARRIER, touch(a), touch(c), buffers=[a, b, c])
    assert offsets[0] != offsets[1] and offsets[0] != offsets[2]
    assert offsets[1] == offsets[2], "b is over when c begins"
    assert arena.bytes == 2048


def test_untouched_buffers_take_nothing() -> None:
    a, b = buffer("a"), buffer("b", 1 << 20)
    arena = plan_shared(X.SeqStmt([X.AllocBuffer(a), X.AllocBuffer(b), touch(a)]), {})
    assert arena.bytes == 1024


def loop_over(*stmts: Any) -> Any:
    return X.For(X.Var("k", "int32"), 0, 4, X.ForKind.SERIAL, X.SeqStmt([*stmts]))


def kernel(*stmts: Any, buffers: list[Any]) -> Any:
    return X.PrimFunc([], X.SeqStmt([*(X.AllocBuffer(b) for b in buffers), *stmts]))


def test_a_barrier_is_made_behind_a_loop_for_the_tile_that_follows_it() -> None:
    a, b, c = buffer("a"), buffer("b"), buffer("c")
    func = kernel(touch(c), loop_over(touch(a), BARRIER), touch(b), touch(c), buffers=[a, b, c])
    before, after = plan_shared(func.body, {}), plan_shared(apart(func).body, {})
    offset = [after.offsets[x.__chandle__()] for x in (a, b, c)]
    assert (before.bytes, after.bytes) == (3 * 1024, 2 * 1024)
    assert offset[0] == offset[1] != offset[2]


def test_no_barrier_is_made_where_none_helps() -> None:
    a, b = buffer("a"), buffer("b")
    for stmts in (
        [touch(a), touch(b), touch(a)],
        [touch(a), BARRIER, touch(b)],
        [loop_over(touch(a), touch(b))],
    ):
        func = kernel(*stmts, buffers=[a, b])
        assert apart(func).same_as(func)


def test_barriers_lie_close_together() -> None:
    tile = buffer("tile", 3)
    barriers = [X.decl_buffer((n,), "uint64", f"b{n}", scope="shared") for n in (1, 2, 4)]
    made = [
        X.Evaluate(tile_ops.call("tl.mbarrier_init", [X.address_of(b[0]), X.const(1, "int32")]))
        for b in barriers
    ]
    arena, offsets = placed(*made, touch(tile), *made, buffers=[tile, *barriers])
    assert arena.bytes == 128 + 12 and offsets[0] == 128
    assert sorted(offsets[1:]) == [0, 32, 48]
