"""`T.Layout` and `T.Fragment` as objects: shapes, equality, and layouts made from others, in kernels too."""

from __future__ import annotations

import pytest
import tvm
from tvm import tirx as X

import tilelang
import tilelang.language as T
from tilelang.layout import (
    Fragment,
    Layout,
    make_full_bank_swizzled_layout,
    make_half_bank_swizzled_layout,
    make_linear_layout,
    make_quarter_bank_swizzled_layout,
    make_swizzled_layout,
    make_wgmma_swizzled_layout,
)

ROWS = Layout([4, 8], lambda i, j: i * 8 + j)
TURNED = Layout([4, 8], lambda i, j: [j, i])
ATOM = Fragment([8, 8], forward_fn=lambda i, j: (i * 4 + j // 2, j % 2))


def test_shapes_and_equality():
    assert ROWS.get_output_shape() == [32] and TURNED.get_output_shape() == [8, 4] and ROWS(1, 2) == [10]
    assert ROWS.is_equal(Layout([4, 8], lambda i, j: j + 8 * i)) and not ROWS.is_equal(TURNED)
    assert ATOM.get_output_shape() == [2] and ATOM.get_thread_size() == 32 and ATOM.replicate_size == 1
    assert ATOM.is_equal(Fragment([8, 8], forward_thread_fn=lambda i, j: i * 4 + j // 2))
    assert not ATOM.is_equal(Fragment([8, 8], forward_thread_fn=lambda i, j: j * 4 + i // 2))


def test_layouts_made_from_others():
    assert TURNED.inverse()(2, 1) == [1, 2] and ROWS.inverse()(13) == [1, 5]
    assert ROWS.expand((2, 3))(1, 2, 1, 3) == [1, 2, 11] and ROWS.expand([3]).get_output_shape() == [3, 32]
    assert ROWS.repeat(0, 2)(5, 3) == [1, 11] and ROWS.repeat(-1, 2)(1, 11) == [1, 11]
    assert ROWS.reshape([32])(13) == [13] and TURNED.reshape([2, 16])(1, 3) == [3, 2]
    for dim, factor, text in ((2, 2, "dim out of range"), (0, 0, "factor must be >= 1")):
        with pytest.raises(ValueError, match=text):
            ROWS.repeat(dim, factor)
    with pytest.raises(ValueError, match="31"):
        ROWS.reshape([31])
    with pytest.raises(ValueError, match="no inverse"):
        Layout([4], lambda i: i // 2).inverse()


@pytest.mark.parametrize(
    ("on_thread", "lower_first", "registers", "threads", "place"),
    [
        (False, True, [12], 32, ([11], [4])),
        (True, True, [2], 192, ([1], [164])),
        (False, False, [12], 32, ([11], [4])),
        (True, False, [2], 192, ([1], [164])),
    ],
)
def test_fragments_repeated(on_thread, lower_first, registers, threads, place):
    grown = ATOM.repeat([2, 3], repeat_on_thread=on_thread, lower_dim_first=lower_first)
    assert grown.get_input_shape() == [16, 24] and grown.get_output_shape() == registers
    assert grown.get_thread_size() == threads
    assert (grown.map_forward_index([9, 17]), grown.map_forward_thread([9, 17])) == place
    # One step along the last dimension tells the two orders of copies apart.
    copy = grown.map_forward_thread([0, 8])[0] // 32 if on_thread else grown.map_forward_index([0, 8])[0] // 2
    assert copy == (1 if lower_first else 2)


def test_fragments_replicated_and_reshaped():
    twice = ATOM.replicate(2)
    assert twice.get_thread_size() == 64 and twice.replicate_size == 2 and twice.condense_rep_var() is twice
    assert twice.map_forward_thread([1, 1, 2]) == [37] and twice.map_forward_thread([1, 2]) == [5]
    flat = ATOM.reshape([64])
    assert (flat.map_forward_thread([13]), flat.map_forward_index([13])) == ([6], [1])


def test_formulas():
    assert str(ROWS.index) == str(ROWS.get_forward_index()) == "[_i * 8 + _j]"
    assert [str(v) for v in TURNED.forward_index] == [str(v) for v in TURNED.get_forward_vars()][::-1]
    assert str(TURNED.get_linearized_forward_index()) == "_j * 4 + _i"
    assert str(ROWS.inverse().index) == "[_i // 8, _i % 8]"
    n = X.Var("n", "int32")
    tvm.ir.assert_structural_equal(ROWS.map_forward_index([n, 3])[0], n * 8 + 3)
    region = [tvm.ir.Range(0, 2), tvm.ir.Range(4, 8)]
    assert [(int(r.min), int(r.extent)) for r in ROWS.map_region_bounds(region)] == [(4, 12)]
    assert (str(ATOM.thread), str(ATOM.index)) == ("_i * 4 + _j // 2", "[_j % 2]")
    twice = ATOM.replicate(2)
    assert str(twice.forward_thread) == "_rep * 32 + _i * 4 + _j // 2"
    assert [str(v) for v in twice.get_forward_vars()] == ["_rep", "_i", "_j"]
    assert twice.inverse()(1, 37) == [1, 3, 1] and len(ATOM.inverse().index) == 3
    with pytest.raises(ValueError, match="no formula"):
        Fragment([8, 8], forward_thread_fn=lambda i, j: i * 4 + j // 2).index  # noqa: B018
    with pytest.raises(ValueError, match="lie in one register"):
        Fragment([4], forward_fn=lambda i: (i // 2, 0)).inverse()


def test_texts():
    assert str(ROWS) == "Layout((4, 8) -> (32,), transform: (_i, _j) -> (_i * 8 + _j,))"
    shown = "replicate: 1, thread: 32, forward_thread: _i * 4 + _j // 2, forward_index: (_j % 2,)"
    assert str(ATOM) == f"Fragment((8, 8) -> (2,), {shown})"
    assert repr(Layout((T.dynamic("m"), 4), lambda i, j: i * 4 + j)).startswith("Layout((")


def test_numbers_are_integers_and_constants():
    extent = ROWS.get_output_shape()[0]
    assert extent == 32 and extent.value == 32 and isinstance(extent, int)
    sizes = [X.IntImm("int32", 4), X.IntImm("int32", 8)]
    assert Layout(sizes, lambda i, j: i * 8 + j).is_equal(ROWS)
    assert ROWS.map_forward_index(sizes) == [40]


def test_functions_of_other_indices_are_told():
    with pytest.raises(TypeError, match="must take 2 indices"):
        Layout([4, 8], lambda i: i)
    with pytest.raises(TypeError, match="needs forward_fn"):
        Fragment([4, 8])


# Offsets of (9, 10) and (3, 1), observed with the released wheel.
@pytest.mark.parametrize(
    ("make", "shape", "dtype", "extents", "places"),
    [
        (make_swizzled_layout, (64, 64), "float16", [1, 8, 512], ([0, 1, 66], [0, 0, 217])),
        (make_swizzled_layout, (64, 48), "float16", [3, 8, 128], ([0, 1, 26], [0, 0, 49])),
        (make_swizzled_layout, (64, 20), "float16", [1280], ([190], [61])),
        (make_swizzled_layout, (64, 64), "float32", [2, 8, 256], ([0, 1, 46], [0, 0, 109])),
        (make_swizzled_layout, (64, 32), "int8", [1, 8, 256], ([0, 1, 42], [0, 0, 97])),
        (make_wgmma_swizzled_layout, (12, 64), "float16", [768], ([586], [193])),
        (make_half_bank_swizzled_layout, (64, 64), "float16", [2, 8, 256], ([0, 1, 42], [0, 0, 105])),
        (make_quarter_bank_swizzled_layout, (64, 64), "float16", [4, 8, 128], ([0, 1, 26], [0, 0, 49])),
        (make_linear_layout, (64, 32), "float16", [2048], ([298], [97])),
    ],
)
def test_layouts_of_shared_tiles_made_outside_a_kernel(make, shape, dtype, extents, places):
    layout = make(X.decl_buffer(shape, dtype))
    assert layout.get_output_shape() == extents
    assert (layout.map_forward_index([9, 10]), layout.map_forward_index([3, 1])) == places
    within = {tuple(layout(i, j)) for i in range(shape[0]) for j in range(shape[1])}
    assert len(within) == shape[0] * shape[1]


def test_bytes_whose_k_runs_down_are_padded_and_what_fits_no_swizzle_is_told():
    tile = X.decl_buffer((64, 64), "int8")
    assert make_swizzled_layout(tile, k_major=False)(1, 2) == [82]
    assert make_linear_layout(X.decl_buffer((3, 4, 5), "float16"))(1, 2, 3) == [33]
    with pytest.raises(ValueError, match="128-byte swizzle needs rows of a multiple of 128 bytes"):
        make_full_bank_swizzled_layout(tile)
    with pytest.raises(ValueError, match="no swizzle has rows of 20"):
        make_swizzled_layout(X.decl_buffer((64, 20), "float16"), allow_pad=False)
    with pytest.raises(RuntimeError, match="outside a kernel"):
        make_swizzled_layout(3)


def test_a_kernel_takes_them():
    swizzled = Layout([8, 32], lambda i, j: (i, j ^ (i % 4 * 8))).repeat(0, 8)
    held = ATOM.repeat([4, 4])

    @T.prim_func
    def main(A: T.Tensor((64, 32), "float16"), B: T.Tensor((32, 32), "float16")):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((64, 32), "float16")
            f = T.alloc_fragment((32, 32), "float16")
            T.annotate_layout({s: swizzled, f: held})
            T.copy(A, s)
            T.copy(s[0:32, 0:32], f)
            T.copy(f, B)

    source = tilelang.lower(main, target="cuda:sm_80").kernel_source
    assert "^" in source and "half f[32]" in source


def test_registers_that_are_counted_have_a_formula_where_each_thread_holds_one():
    spread = T.Fragment([8], forward_thread_fn=lambda i, copy: i + copy * 8, replicate=4)
    assert str(spread).endswith("forward_index: (0,))")


def test_a_fragment_is_a_layout_of_registers():
    held = T.Fragment((32,), forward_thread_fn=lambda i: i // 2, forward_index_fn=lambda i: i % 2)
    assert isinstance(held, T.Layout)
    assert held(5) == [1]
    assert held.expand([2]).is_equal(T.Layout((2, 32), lambda i, j: (i, j % 2)))
    assert not held.is_equal(T.Layout((32,), lambda i: i % 2))


def test_what_annotations_say():
    for annotation, scope, strides in (
        (T.Tensor((4, 8), "float16"), "global", (8, 1)),
        (T.Tensor((4,), scope="shared"), "shared", (1,)),
        (T.StridedTensor((4, 4), (9, 1)), "global", (9, 1)),
    ):
        assert (annotation.scope(), annotation.strides) == (scope, strides)
    macro_parameters = T.SharedBuffer((4,)), T.FragmentBuffer((4,)), T.LocalBuffer((4,))
    assert [p.scope() for p in macro_parameters] == ["shared.dyn", "local.fragment", "local"]
