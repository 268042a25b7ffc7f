"""Random numbers of a thread: those that cuRAND gives for the same generator, seed and sequence."""

from __future__ import annotations

from typing import Any

from tilelang.language.values import OutsideKernelError, Scalar


def rng_init(seed: Any, seq: Any = None, off: Any = 0, generator: str = "curandStatePhilox4_32_10_t") -> None:
    """Begin the numbers of this thread.

    seq: which of the independent sequences of `seed`, the number of the thread in the grid if None. off: how
    many numbers of it to skip. generator: "curandStatePhilox4_32_10_t", "curandStateXORWOW_t" or
    "curandStateMRG32k3a_t"; only the first begins quickly, the others compute their way to the sequence.
    """
    raise OutsideKernelError("rng_init")


def rng_rand() -> Scalar:
    """The next 32 random bits, a uint32."""
    raise OutsideKernelError("rng_rand")


def rng_rand_float(bit: int = 32, dist: str = "uniform") -> Scalar:
    """The next random float32, or float64.

    dist: "uniform" in (0, 1], or "normal" with mean 0 and deviation 1. bit: 32 or 64.
    """
    raise OutsideKernelError("rng_rand_float")
