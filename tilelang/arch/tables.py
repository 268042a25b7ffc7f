"""One door to the tables of all targets: limits of a block, features, and the instructions for a gemm."""

from __future__ import annotations

from tilelang.arch import cuda, hip, metal
from tilelang.arch.features import ANY_TILE, Features
from tilelang.arch.instruction import Limits, MatrixInstruction
from tilelang.arch.target import Target


def limits(target: Target) -> Limits:
    """What one block may use on `target`."""
    match target.kind:
        case "cuda":
            return cuda.limits(target.sm)
        case "hip":
            return hip.limits(target.arch)
        case "metal":
            return metal.limits()
        case _:
            return Limits(shared_bytes=None)


_CPU = Features(spreads_blocks=False, operand_scopes=ANY_TILE, accumulator_scopes=ANY_TILE)


def features(target: Target) -> Features:
    """What `target` can do."""
    match target.kind:
        case "cuda":
            return cuda.features(target.sm)
        case "hip":
            return hip.features()
        case "metal":
            return metal.features()
        case _:
            return _CPU


def matrix_instructions(target: Target) -> tuple[MatrixInstruction, ...]:
    """Matrix instructions of `target`, preferred ones first; none on the CPU, where a gemm is a loop nest."""
    match target.kind:
        case "cuda":
            return cuda.matrix_instructions(target.sm)
        case "hip":
            return hip.matrix_instructions(target.arch)
        case "metal":
            return metal.matrix_instructions()
        case _:
            return ()


def first_with(target: Target, operand: str) -> str | None:
    """The first architecture of the target's kind whose hardware multiplies tiles of `operand`: `sm_80`.

    None if this target's does already, or if nothing is known.
    """
    first = cuda.FIRST_WITH.get(operand) if target.kind == "cuda" else None
    return None if first is None or first <= target.sm else f"sm_{first}"


def choose_instruction(target: Target, operand: str, accumulator: str, k: int) -> MatrixInstruction | None:
    """The instruction for one dtype pair whose k divides the tile's K; None if there is none.

    Hovers, rules and lowerings all ask here, so that what is shown is what is emitted.
    """
    return _fitting(matrix_instructions(target), operand, accumulator, k)


def choose_sparse_instruction(
    target: Target, operand: str, accumulator: str, k: int
) -> MatrixInstruction | None:
    """The same for a product whose A is stored without the zeros of its 2:4 pattern; `k` counts them."""
    known = cuda.sparse_instructions(target.sm) if target.kind == "cuda" else ()
    return _fitting(known, operand, accumulator, k)


def _fitting(
    known: tuple[MatrixInstruction, ...], operand: str, accumulator: str, k: int
) -> MatrixInstruction | None:
    for instruction in known:
        if (
            instruction.operand == operand
            and accumulator in instruction.accumulators
            and k % instruction.k == 0
        ):
            return instruction
    return None
