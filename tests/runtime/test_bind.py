"""Argument checks: every refusal names the tensor, the dimension, what was expected and what was found."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from tests.runtime.plans import plan, tensor
from tilelang.runtime.bind import ArgumentError, Binder
from tilelang.runtime.plan import ScalarParam

GEMM = plan(
    tensor("A", "M", "K"),
    tensor("B", "K", "N"),
    tensor("C", "M", "N"),
    outputs=(2,),
    grid=("(M + 3) // 4", "N"),
)


def refused(text: str):
    return pytest.raises(ArgumentError, match=re.escape(text))


def test_sizes_grid_and_outputs_follow_from_shapes():
    bound = Binder(GEMM).bind([torch.zeros(10, 3), torch.zeros(3, 7)])
    assert bound.sizes == {"M": 10, "K": 3, "N": 7}
    assert bound.grid == (3, 7)
    assert bound.blocks == 21
    assert bound.outputs == (("float32", (10, 7)),)
    assert bound.device == "cpu"


def test_numpy_arrays_are_tensors_too():
    assert Binder(GEMM).bind([np.zeros((2, 3), np.float32), np.zeros((3, 4), np.float32)]).sizes["N"] == 4


def test_the_number_of_arguments():
    with refused(
        "Kernel expected 2 inputs, but 3 are provided: kernel takes 2 arguments (A, B); C is allocated"
    ):
        Binder(GEMM).bind([torch.zeros(2, 3)] * 3)


def test_a_dimension_that_disagrees_names_both_tensors():
    with refused("kernel kernel input B shape[0] mismatch: dimension 0 is 4, expected 3 = K (K = 3 from"):
        Binder(GEMM).bind([torch.zeros(2, 3), torch.zeros(4, 5)])


def test_a_fixed_dimension():
    with refused("input A shape[1] mismatch: dimension 1 is 9, expected 8"):
        Binder(plan(tensor("A", "M", 8))).bind([torch.zeros(2, 9)])


def test_rank_dtype_device_and_type():
    binder = Binder(GEMM)
    with refused("A ndim mismatch, expected 2: (M, K), got 1: (6,)"):
        binder.bind([torch.zeros(6), torch.zeros(3, 2)])
    with refused("B dtype mismatch, expected float32, got float16"):
        binder.bind([torch.zeros(2, 3), torch.zeros(3, 2, dtype=torch.float16)])
    with refused("A device_type mismatch, expected cpu, got meta: kernel was compiled for cpu"):
        binder.bind([torch.zeros(2, 3, device="meta"), torch.zeros(3, 2)])
    with refused("A must be a tensor of float32, got list"):
        binder.bind([[1.0], torch.zeros(3, 2)])


def test_a_transposed_tensor_is_refused_with_advice():
    with refused(
        "A strides[1] mismatch: it is not contiguous, the stride of dimension 1 is 2, expected 1; pass A"
    ):
        Binder(GEMM).bind([torch.zeros(3, 2).t(), torch.zeros(3, 2)])


def test_a_stride_of_one_element_does_not_matter():
    strided = torch.zeros(8, 4)[:, :1].t()  # shape (1, 8), strides (1, 4): dimension 1 is not contiguous
    with refused("the stride of dimension 1 is 4"):
        Binder(plan(tensor("A", "M", "N"))).bind([strided])
    assert (
        Binder(plan(tensor("A", "M", "N"))).bind([torch.zeros(1, 8).as_strided((1, 8), (99, 1))]).sizes["N"]
        == 8
    )


def test_declared_strides_are_solved():
    declared = plan(tensor("A", "M", "N", strides=("S", 1)))
    assert Binder(declared).bind([torch.zeros(4, 10)[:, :6]]).sizes == {"M": 4, "N": 6, "S": 10}
    with refused("A strides[1] mismatch: stride of dimension 1 is 4, expected 1"):
        Binder(declared).bind([torch.zeros(6, 4).t()])


def test_one_unknown_in_an_expression_is_solved_from_it():
    linear = plan(tensor("A", "M + N"), tensor("B", "M"), symbols=("M", "N"))
    assert Binder(linear).bind([torch.zeros(10), torch.zeros(4)]).sizes == {"M": 4, "N": 6}
    doubled = plan(tensor("A", "M * 2"), symbols=("M",))
    assert Binder(doubled).bind([torch.zeros(10)]).sizes == {"M": 5}
    with refused("A shape[0] mismatch: dimension 0 is 9, but no integer M makes M * 2 that"):
        Binder(doubled).bind([torch.zeros(9)])


def test_half_a_size_waits_for_the_whole_one():
    """Packed weights stand before what says how many there are."""
    halved = plan(tensor("B", "N // 2"), tensor("V", "N"), symbols=("N",))
    assert Binder(halved).bind([torch.zeros(4), torch.zeros(9)]).sizes == {"N": 9}
    with refused("B shape[0] mismatch"):
        Binder(halved).bind([torch.zeros(5), torch.zeros(9)])
    with refused("kernel cannot work out N from the shapes of its arguments: dimension 0 of B is N // 2"):
        Binder(plan(tensor("B", "N // 2"), symbols=("N",))).bind([torch.zeros(4)])


def test_a_size_that_nothing_determines():
    with refused("kernel cannot work out M, N from the shapes of its arguments: dimension 0 of A is M + N"):
        Binder(plan(tensor("A", "M + N"), symbols=("M", "N"))).bind([torch.zeros(10)])


def test_scalars():
    binder = Binder(plan(ScalarParam("n", "int32"), ScalarParam("x", "float32")))
    assert binder.bind([3, 2]).sizes == {"n": 3, "x": 2}
    assert binder.bind([torch.tensor(3), 0.5]).sizes == {"n": 3, "x": 0.5}
    with refused("n = 2147483648 does not fit into int32"):
        binder.bind([2**31, 0.0])
    with refused("n must be an integer of int32, got 0.5"):
        binder.bind([0.5, 0.0])
    with refused("x must be a number of float32, got str"):
        binder.bind([1, "a"])


def test_tolerated_dtypes():
    assert Binder(plan(tensor("A", "M", dtype="uint8"))).bind([torch.zeros(3, dtype=torch.bool)])
    with refused("A dtype mismatch, expected int8, got int16"):
        Binder(plan(tensor("A", "M", dtype="int8"))).bind([torch.zeros(3, dtype=torch.int16)])


def test_an_empty_tensor_has_any_strides_and_no_blocks():
    bound = Binder(GEMM).bind([torch.zeros(0, 3), torch.zeros(3, 4)])
    assert bound.blocks == 0
    assert bound.outputs == (("float32", (0, 4)),)


def test_more_elements_along_a_dimension_than_32_bits_count():
    long = torch.zeros(1).expand(2**31 + 5)
    with refused("A: dimension 0 is 2147483653, but kernels count the elements of a dimension with 32 bits"):
        Binder(plan(tensor("A", "M", strides=("s",)))).bind([long])


def test_a_stride_past_32_bits_needs_a_symbol_of_64():
    far = np.lib.stride_tricks.as_strided(np.zeros(1, np.int8), (2, 4), (2**31 + 8, 1))
    param = tensor("A", "M", 4, dtype="int8", strides=("s", 1))
    with refused("s = 2147483656, from stride of dimension 0 of A, does not fit into the 32 bits"):
        Binder(plan(param)).bind([far])
    assert Binder(plan(param, wide=("s",))).bind([far]).sizes["s"] == 2**31 + 8
