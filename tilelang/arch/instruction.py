"""A matrix instruction of a target: its tile, its operand dtype, its legal accumulators."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MatrixInstruction:
    """`name` computes C[m, n] += A[m, k] · B[k, n] on one warp (or wavefront, or simdgroup).

    `operand` is the dtype of A and B as the author writes it: float32 stands for TF32 where `note` says so.
    """

    name: str
    m: int
    n: int
    k: int
    operand: str
    accumulators: tuple[str, ...]
    note: str = ""

    @property
    def shape_text(self) -> str:
        """`m16n8k16`."""
        return f"m{self.m}n{self.n}k{self.k}"


@dataclass(frozen=True)
class Limits:
    """What one block may use."""

    shared_bytes: int | None  # None: no limit that matters (CPU)
    threads: int = 1024
