"""Shared buffers share bytes only across a barrier, and never otherwise."""

from __future__ import annotations

from typing import Any

from tvm import tirx as X

from tilelang.ir import tile_ops
from tilelang.passes.plan_shared import Arena, plan_shared


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
