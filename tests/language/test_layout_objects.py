"""`T.Layout` and `T.Fragment` as objects: shapes, equality, and layouts made from others, in kernels too."""

from __future__ import annotations

import pytest

import tilelang
import tilelang.language as T
from tilelang.layout import Fragment, Layout

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
    assert twice.map_forward_thread([1, 2, 1]) == [37] and twice.map_forward_thread([1, 2]) == [5]
    flat = ATOM.reshape([64])
    assert (flat.map_forward_thread([13]), flat.map_forward_index([13])) == ([6], [1])


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
