"""Matrices with 2:4 structured sparsity as mma.sp and sparse wgmma take them, by the figures of the PTX ISA.

Written from the document (9.7.15.6.1 and 9.7.16.6: metadata of m16n8k8 to m16n8k64 and of wgmma), on purpose
not from `tilelang.targets.cuda.ops.metadata`.
"""

from __future__ import annotations

import re

import numpy as np

from tests.emulator.instructions import OPERANDS, RESULTS, WARP, a_places, b_places, result_places, seen


def multiply(name: str, selector: int, registers: tuple[np.ndarray, ...], metadata: np.ndarray) -> np.ndarray:
    """D for `mma_sp_m16n8k32_f16_f32` and its kin; registers of D, A and B are [warps, 32, elements]."""
    d, a, b = registers
    k, operand, right, result = _parts(name)
    per = 4 // OPERANDS[operand].itemsize
    rows, columns = a_places(k // 2, per)
    stored = np.zeros((len(a), 16, k // 2), a.dtype)
    stored[:, rows, columns] = a
    left = written_out(stored, codes(metadata, operand, k, selector), operand)
    depth, width = b_places(k, per)
    whole = np.zeros((len(b), k, 8))
    whole[:, depth, width] = seen(b, right)
    product = seen(left, operand) @ whole
    row, column = result_places()
    return (d.astype(np.float64) + product[:, row, column]).astype(RESULTS[result])


def registers_of(name: str) -> tuple[int, int, int]:
    """Elements of A, B and D in one lane."""
    k = _parts(name)[0]
    return 16 * k // 2 // WARP, 8 * k // WARP, 4


def _parts(name: str) -> tuple[int, str, str, str]:
    match = re.fullmatch(r"mma_sp_m16n8k(\d+)_(\w+?)(?:x(\w+?))?_(\w+)", name)
    assert match is not None, name
    return int(match[1]), match[2], match[3] or match[2], match[4]


def codes(metadata: np.ndarray, operand: str, k: int, selector: int) -> np.ndarray:
    """[warps, 16, groups along K] 4-bit codes from the 32 bits [warps, 32] that each lane holds."""
    of_lane = metadata.astype(np.uint32).reshape(-1, 8, 4)  # the eight groups of four lanes
    upper, lower = of_lane >> 16, of_lane & 0xFFFF
    if OPERANDS[operand].itemsize == 1:  # all four lanes: two rows, then the second half of K
        assert k == 64 and selector == 0, "8-bit operands"
        first = np.concatenate([lower[..., [0, 2]], upper[..., [0, 2]]], -1)[..., [0, 2, 1, 3]]
        second = np.concatenate([lower[..., [1, 3]], upper[..., [1, 3]]], -1)[..., [0, 2, 1, 3]]
    else:
        lanes = 1 if k * OPERANDS[operand].itemsize == 32 else 2
        chosen = slice(selector * lanes, (selector + 1) * lanes)
        first, second = lower[..., chosen], upper[..., chosen]
    words = np.concatenate([first, second], 1)  # rows 0 to 7, then 8 to 15: 16 bits of four groups each
    return (words[..., None] >> (4 * np.arange(4)) & 15).reshape(len(words), 16, -1)


def written_out(stored: np.ndarray, code: np.ndarray, operand: str) -> np.ndarray:
    """[..., rows, k] with the zeros, from the stored half and a code for each group.

    A code of 0, which loads beyond the end of E make, is none of the document's: it names the first element
    twice, which is nothing where the elements are 0.
    """
    shape, kept = stored.shape[:-1], 1 if operand == "tf32" else 2
    groups = stored.reshape(*shape, -1, kept)
    beyond = (code == 0) & (groups.astype(np.float32) == 0).all(-1)
    if operand == "tf32":  # one of two; the code counts in halves of an element
        assert (np.isin(code, (0b0100, 0b1110)) | beyond).all(), "32-bit elements: 0b0100 or 0b1110"
        places, group = (code >> 1 & 1)[..., None], 2
    else:
        places, group = np.stack([code & 3, code >> 2], -1), 4
        assert ((places[..., 0] != places[..., 1]) | beyond).all(), "metadata names an element twice"
    dense = np.zeros((*code.shape, group), stored.dtype)
    np.put_along_axis(dense, places.astype(np.int64), groups, -1)
    return dense.reshape(*shape, -1)
