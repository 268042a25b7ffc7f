"""Numbers and sizes as every feature writes them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tilelang.facts.kernel_facts import KernelFacts, Size

_ATOM = re.compile(r"\w+|\w+\([^()]*\)")  # a name, or a call such as ceildiv(N, 128)


def byte_text(n_bytes: int) -> str:
    """`512 B`, `8 KiB`, `1.5 MiB`."""
    if n_bytes < 1024:
        return f"{n_bytes} B"
    kib = n_bytes / 1024
    return f"{kib:.4g} KiB" if kib < 1024 else f"{kib / 1024:.4g} MiB"


def shape_text(shape: Sequence[Size]) -> str:
    """`128×32`, `ceildiv(M, 128)×N`; sums and the like get parentheses."""
    return "×".join(str(s) if isinstance(s, int) or _ATOM.fullmatch(s) else f"({s})" for s in shape)


def specialisation_text(facts: KernelFacts) -> str:
    """`block_M=128, block_N=128`; "" where nothing was chosen."""
    return ", ".join(f"{name}={value}" for name, value in facts.specialisation)


def shared_memory_text(facts: KernelFacts) -> str | None:
    """`shared memory 48 KiB of 227 KiB`; None where nothing is known, as with symbolic sizes."""
    used = shared_bytes_text(facts)
    if used is None or facts.shared_limit is None:
        return None if used is None else f"shared memory {used}"
    return f"shared memory {used} of {byte_text(facts.shared_limit)}"


def shared_bytes_text(facts: KernelFacts) -> str | None:
    """`48 KiB`, `at least 4 KiB`; None where nothing is known."""
    if facts.shared_bytes is None or not (facts.shared_bytes or facts.shared_exact):
        return None
    return ("" if facts.shared_exact else "at least ") + byte_text(facts.shared_bytes)


def quantity(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
