"""T.ldg128, T.stg128, T.lds64, T.sts32 and relatives, and what is done with the vectors they give."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch

import tilelang
import tilelang.language as T
from tests.cuda.kernels import lower_text
from tests.emulator.block import run
from tests.on_device import DEVICES, compiled_for
from tilelang import reference
from tilelang.analysis.check import check_source


@tilelang.jit
def words(A, B):
    A: T.Tensor((64, 16), "float16")
    B: T.Tensor((64, 16), "int16")
    whole = T.empty((64, 16), "float16")
    some = T.empty((64, 16), "int16")
    picked = T.empty((64, 4), "uint32")
    with T.Kernel(2, threads=32) as bx:
        tx = T.get_thread_binding()
        row = bx * 32 + tx
        s = T.alloc_shared((32, 16), "float16")
        T.stg256(whole[row, 0], T.ldg256(A[row, 0:16]))
        low = T.ldg128(A[row, 0], pred=row < 50)
        T.sts128(s[tx, 0], low)
        T.sts64(s[tx, 8], T.vectorlow("uint32x2", low))
        T.sts32(s[31 - tx, 12], T.ldg32(A[row, 2]))
        T.sync_threads()
        back = T.lds128(s[tx, 8])
        pair = T.lds64(s[tx, 4:8])
        picked[row, 0] = T.extract_lane(back, 2)
        picked[row, 1] = T.extract_lane(pair, 1)
        picked[row, 2] = T.lds32(s[tx, 8])
        both = T.Shuffle([pair, T.vectorhigh("uint32x2", low)], [3, 0])
        picked[row, 3] = T.extract_lane(both, 0) - T.extract_lane(both, 1)
        T.stg64(some[row, 0], T.ldg64(B[row, 4]), pred=row > 7)
        T.stg64(some[row, 4], T.vectorcombine("uint32x2", T.uint32(7), T.ldg32(B[row, 0])))
        T.stg128(some[row, 8], T.Broadcast(T.uint32(0x00020001), 4))
    return whole, some, picked


def _operands() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(64, 16)).astype("float16"), rng.integers(-999, 999, (64, 16)).astype("int16")


def _expected(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`some` has garbage where nothing is written: rows 0 to 7, columns 0 to 3."""
    words = a.view("uint32").reshape(64, 8)
    low = np.where(np.arange(64)[:, None] < 50, words[:, :4], 0).astype("uint32")
    turned = words.reshape(2, 32, 8)[:, ::-1].reshape(64, 8)
    picked = np.stack([turned[:, 1], low[:, 3], low[:, 0], low[:, 3] - low[:, 2]], 1)
    some = np.zeros((64, 16), "int16")
    some[8:, 0:4] = b[8:, 4:8]
    some[:, 4], some[:, 6:8] = 7, b[:, 0:2]
    some[:, 8::2], some[:, 9::2] = 1, 2
    return a, some, picked


def _check(got: list[np.ndarray], a: np.ndarray, b: np.ndarray) -> None:
    whole, some, picked = _expected(a, b)
    np.testing.assert_array_equal(got[0], whole)
    some[:8, :4] = got[1][:8, :4]
    np.testing.assert_array_equal(got[1], some)
    np.testing.assert_array_equal(got[2].view("uint32"), picked)


def test_threads_move_words_on_cuda() -> None:
    a, b = _operands()
    got = [np.zeros((64, 16), "float16"), np.zeros((64, 16), "int16"), np.zeros((64, 4), "uint32")]
    lowered = lower_text(inspect.getsource(words.function))
    run(lowered, {"A": a, "B": b, "whole": got[0], "some": got[1], "picked": got[2]})
    _check(got, a, b)
    text = lowered.source.text
    assert "*(uint4*)&low_read[0] = *(const uint4*)&A_uint32_1[bx * 256 + tx * 8];" in text
    assert "*(uint2*)&pair[0] = *(const uint2*)&s_uint32_4[tx * 8 + 2];" in text


@pytest.mark.parametrize("device", DEVICES)
def test_threads_move_words(device: str) -> None:
    a, b = _operands()
    kernel = compiled_for(words, device).compile()
    given = [torch.from_numpy(x).to(device) for x in (a, b)]
    _check(
        [
            t.cpu().view(torch.int32).numpy() if t.dtype == torch.uint32 else t.cpu().numpy()
            for t in kernel(*given)
        ],
        a,
        b,
    )
    if device == "cpu":
        results = reference.run(kernel, *given)
        _check([t.view(torch.int32).numpy() if t.dtype == torch.uint32 else t.numpy() for t in results], a, b)


WRONG = """
import tilelang
import tilelang.language as T

@tilelang.jit
def wrong(A):
    A: T.Tensor((64,), "float16")
    with T.Kernel(1, threads=32):
        s = T.alloc_shared((64,), "float16")
        x = T.ldg128(s[0])
        y = T.ldg64(A[0])
        T.stg128(A[0], y)
        T.sts32(s[0], y)
        z = T.extract_lane(y, 2)
        T.lds64(3)
"""


def test_what_does_not_fit_is_named() -> None:
    problems = check_source("wrong.py", WRONG, "cuda:sm_90").all_problems()
    said = [(p.span.line, p.message) for p in problems if p.rule == "bad-arguments"]
    assert [line for line, _ in said] == [10, 12, 13, 14, 15]
    assert "must be an element of a tensor in global memory" in said[0][1]
    assert "must have 128 bits, as uint32x4 has, not be uint32x2" in said[1][1]
    assert "must have 32 bits, as uint32 has, not be uint32x2" in said[2][1]
    assert "elements are 0 to 1" in said[3][1]


PRINTED = """
import tilelang
import tilelang.language as T

@tilelang.jit
def printed(A):
    A: T.Tensor((8,), "float32")
    with T.Kernel(1, threads=1):
        T.print(T.view(A, (2,), "float32x4")[1], msg="row")
"""


def test_a_vector_is_printed_in_one_line() -> None:
    statistics = run(lower_text(PRINTED), {"A": np.arange(8, dtype="float32")})
    assert len(statistics.printed) == 1
    assert "msg='row'" in statistics.printed[0]
    assert "dtype=float32x4 value=(4.000000, 5.000000, 6.000000, 7.000000)" in statistics.printed[0]
