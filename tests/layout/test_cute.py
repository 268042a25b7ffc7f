"""The algebra of layouts: every operation against what it means, element by element."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import ir, tirx

import tilelang.layout as declared
from tilelang.layout import cute
from tilelang.layout.cute import Layout, make_layout

EXTENTS = st.integers(1, 6)
SHAPES = st.recursive(EXTENTS, lambda inner: st.lists(inner, min_size=1, max_size=3).map(tuple), max_leaves=4)


@st.composite
def layouts(draw: st.DrawFn, injective: bool = False) -> Layout:
    shape = draw(SHAPES)
    leaves = cute.flatten_to_tuple(shape)
    if injective:
        strides, reached = [0] * len(leaves), 1
        for k in draw(st.permutations(range(len(leaves)))):
            reached *= draw(st.integers(1, 3))
            strides[k] = reached
            reached *= leaves[k]
    else:
        strides = draw(st.lists(st.integers(0, 12), min_size=len(leaves), max_size=len(leaves)))
    found = iter(strides)

    def nested(value: Any) -> Any:
        return tuple(map(nested, value)) if isinstance(value, tuple) else next(found)

    return Layout(shape, nested(shape))


def numbers(layout: Layout) -> list[int]:
    return [layout(i) for i in range(cute.size(layout))]


@given(layouts(), st.sampled_from([None, 2, 8]))
def test_fewer_dimensions_are_the_same_function(layout: Layout, most: int | None) -> None:
    assert numbers(cute.coalesce(layout, most)) == numbers(layout)
    assert numbers(cute.flatten(layout)) == numbers(layout)
    assert cute.cosize(layout) == max(numbers(layout)) + 1
    assert Layout.parse(str(layout)) == layout


@settings(max_examples=300)
@given(layouts(), layouts())
def test_a_composition_is_one_after_the_other(lhs: Layout, rhs: Layout) -> None:
    try:
        both = cute.composition(lhs, rhs)
    except ValueError:
        return
    assert cute.compatible(rhs.shape, both.shape)
    inside = [i for i in range(cute.size(rhs)) if rhs(i) < cute.size(lhs)]
    assert [both(i) for i in inside] == [lhs(rhs(i)) for i in inside]


@given(layouts(injective=True), st.integers(1, 60))
def test_a_complement_is_what_is_left_out(layout: Layout, reach: int) -> None:
    try:
        rest = cute.complement(layout, reach)
    except ValueError:  # strides that do not divide
        return
    together = sorted(a + b for a in numbers(layout) for b in numbers(rest))
    assert len(set(together)) == len(together)


@given(layouts(injective=True))
def test_inverses_lead_back(layout: Layout) -> None:
    right = cute.right_inverse(layout)
    assert [layout(right(n)) for n in range(cute.size(right))] == list(range(cute.size(right)))
    try:
        left = cute.left_inverse(layout)
    except ValueError:  # strides that do not divide
        return
    assert [left(layout(i)) for i in range(cute.size(layout))] == list(range(cute.size(layout)))


def test_tiles_of_a_layout_and_layouts_of_tiles() -> None:
    divided = cute.logical_divide(make_layout((4, 2, 3), (2, 1, 8)), make_layout(4, 2))
    assert str(divided) == "((2,2),(2,3)):((4,1),(2,8))"
    block, tiler = make_layout((2, 5), (5, 1)), make_layout((3, 4), (1, 3))
    assert str(cute.logical_product(block, tiler)) == "((2,5),(3,4)):((5,1),(10,30))"
    assert str(cute.blocked_product(block, tiler)) == "((2,3),(5,4)):((5,10),(1,30))"
    assert str(cute.tiled_product(block, tiler)) == "((2,5),3,4):((5,1),10,30)"


def test_what_is_no_layout_is_refused() -> None:
    with pytest.raises(ValueError, match=r"6:1 does not divide the extents of \(4,8\):\(8,1\)"):
        cute.composition(make_layout((4, 8), (8, 1)), make_layout(6, 1))
    with pytest.raises(ValueError, match="Non-injective layout"):
        cute.complement(make_layout((2, 4), (3, 1)), 24)
    with pytest.raises(ValueError, match=r"congruent: \(4,8\) vs \(8\)"):
        make_layout((4, 8), (8,))
    with pytest.raises(IndexError, match="out of range"):
        make_layout((4, 8))[2]


def test_coordinates_as_values() -> None:
    identity = cute.make_identity_layout((4, (2, 3)))
    assert str(identity) == "(4,(2,3)):(1@0,(1@0@1,1@1@1))"
    assert identity((3, (1, 2))) == (3, (1, 2)) == identity(23)
    assert cute.coshape(identity) == (4, (2, 3))
    assert str(cute.composition(cute.make_identity_layout((4, 8)), make_layout(8, 2))) == "(2,4):(2@0,1@1)"
    assert str(3 * cute.E((1, 0))) == "3@0@1"


def test_other_shapes_and_parts() -> None:
    assert str(make_layout(32).with_shape((4, 8))) == "(4,8):(1,4)"
    nested = make_layout((4, (2, 4)), (1, (16, 4)))
    first, part = cute.restrict(nested, [ir.Range(1, 3), ir.Range(2, 6)])
    assert (first, str(part)) == (5, "(2,(2,2)):(1,(16,4))")
    with pytest.raises(ValueError, match="no layout"):
        cute.restrict(nested, [ir.Range(1, 3), ir.Range(1, 5)])


def test_nested_tuples_as_objects() -> None:
    pair = cute.IntTuple.parse("(1,(2,3))")
    assert pair == cute.from_python([1, [2, 3]]) and cute.to_python(pair) == (1, (2, 3))
    assert str(pair + cute.from_python((1, (1, 1)))) == "(2,(3,4))" and [str(f) for f in pair.fields] == [
        "1",
        "(2,3)",
    ]
    with pytest.raises(ValueError, match="same rank"):
        _ = pair * 3


@given(layouts(injective=True))
def test_layouts_of_the_language_and_back(layout: Layout) -> None:
    told = layout.to_tilelang()
    shape = told.get_input_shape()
    assert shape == [cute.size(mode) for mode in layout.modes()]
    for number in range(cute.size(layout)):
        at, rest = [], number
        for extent in shape:
            at.append(rest % extent)
            rest //= extent
        assert told.map_forward_index(at) == [layout(number)]


def test_what_the_language_declares() -> None:
    blocked = declared.Layout([8, 8], lambda i, j: (i // 4, j, i % 4))
    assert str(Layout.from_tilelang(blocked)) == "((4,2),8):((1,32),4)"
    assert str(Layout.from_tilelang_hierarchical(blocked)) == "((4,2),8):((1@2,1@0),1@1)"
    assert Layout.from_tilelang(declared.Layout([8, 8], lambda i, j: i * 8 + (j ^ i))) is None


@pytest.mark.parametrize("columns, bits", [(64, 3), (32, 2), (16, 1)])
def test_swizzles_of_shared_tiles(columns: int, bits: int) -> None:
    tile = tirx.decl_buffer((64, columns), "float16", scope="shared", name="tile")
    found = cute.ComposedLayout.from_tilelang(declared.make_swizzled_layout(tile))
    assert str(found) == f"Sw<{bits},3,3> o 0 o (64,{columns}):({columns},1)"
    assert found is not None
    for i, j in ((0, 0), (3, 9), (63, columns - 1)):
        place = declared.make_swizzled_layout(tile).map_forward_index([i, j])
        assert found((i, j)) == _row_major(tile, place)
    in_bytes = cute.ComposedLayout.from_tilelang(declared.make_swizzled_layout(tile), tile)
    assert in_bytes is not None and in_bytes.swizzle == cute.Swizzle(bits, 4, 3)
    assert int(in_bytes.swizzle.to_swizzle_mode()) == bits
    with pytest.raises(ValueError, match="Not a canonical"):
        found.swizzle.to_swizzle_mode()


def _row_major(tile: Any, place: list[int]) -> int:
    reach = declared.make_swizzled_layout(tile).get_output_shape()
    number = 0
    for index, extent in zip(place, reach, strict=True):
        number = number * extent + index
    return number
