"""What one `wgmma.mma_async` is called: the types of its operands in PTX, and the names of our helpers.

PTX ISA 9.7.16.5.2.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.arch.cuda import MIXED_OPERANDS, WGMMA, WGMMA_K_BYTES, WGMMA_OPERAND_BITS

PTX_OPERANDS: Mapping[str, str] = {
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "tf32",
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
    "int8": "s8",
    "uint8": "u8",
}
PTX_RESULTS: Mapping[str, str] = {"float16": "f16", "float32": "f32", "int32": "s32"}


def multiplies(a: str, b: str, result: str) -> bool:
    """Whether an instruction multiplies elements of these dtypes."""
    return (a, result) in WGMMA and (a == b or frozenset((a, b)) in MIXED_OPERANDS)


def depth(operand: str) -> int:
    """Products along K of one instruction."""
    return WGMMA_K_BYTES * 8 // WGMMA_OPERAND_BITS[operand]


def one_product(
    n: int,
    operands: tuple[str, str],
    result: str,
    by_registers: bool,
    turned: tuple[bool, bool],
    negative: tuple[bool, bool],
    selector: int | None = None,
) -> str:
    """The helper for one instruction: `wgmma_ss_n128_f16xf16_f32_nn_pp`.

    turned: whether K is not the contiguous dimension of A and B; negative: whether they are. selector: of the
    metadata of a 2:4 sparse A, as in `wgmma_sp_ss_n128_f16xf16_f32_nn_pp_0`; None for a dense one.
    """
    a, b = (PTX_OPERANDS[x] for x in operands)
    order = "".join("t" if t else "n" for t in turned)
    signs = "".join("m" if x else "p" for x in negative)
    name = f"{'rs' if by_registers else 'ss'}_n{n}_{a}x{b}_{PTX_RESULTS[result]}_{order}_{signs}"
    return f"wgmma_{name}" if selector is None else f"wgmma_sp_{name}_{selector}"
