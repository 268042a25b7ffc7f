"""What is known of a kernel, in words: as hovers, lenses and annotated sources write it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tilelang.facts.kernel_facts import BufferFact, KernelFacts, LoopFact, Size

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


def buffer_words(buffer: BufferFact) -> list[str]:
    """Bytes, layout, registers per thread, as far as they are known."""
    words = []
    if buffer.bytes is not None:
        if buffer.stages > 1:
            total = byte_text(buffer.bytes * buffer.stages)
            words.append(f"{byte_text(buffer.bytes)} × {buffer.stages} stages = {total}")
        else:
            words.append(byte_text(buffer.bytes))
    if buffer.layout:
        words.append(f"layout: {buffer.layout}")
    if buffer.registers_per_thread is not None:
        words.append(f"{quantity(buffer.registers_per_thread, 'register')} per thread")
    return words


def loop_words(loop: LoopFact) -> list[str]:
    """What the loop runs over, and its stages."""
    staged = loop.num_stages and "stage" not in loop.summary
    return [loop.summary, quantity(loop.num_stages, "stage")] if staged else [loop.summary]


def launch_words(facts: KernelFacts) -> list[str]:
    """Grid, threads, shared memory and registers of a kernel."""
    words = []
    if facts.launch is not None:
        words.append(f"grid: {shape_text(facts.launch.grid)} blocks")
        if facts.launch.threads is not None:
            more = facts.launch.fetching
            also = f", and {more} that fetch tiles by TMA (warp-specialised)" if more else ""
            words.append(f"{facts.launch.threads} threads per block{also}")
        words += facts.launch.notes
    shared = shared_bytes_text(facts)
    if shared is not None and facts.shared_bytes is not None:
        used = f"shared memory: {shared}"
        if facts.shared_limit:
            share = 100 * facts.shared_bytes / facts.shared_limit
            used += f" of {byte_text(facts.shared_limit)} ({share:.0f} %)"
        words.append(used)
    elif any(b.scope == "shared" for b in facts.buffers):
        words.append("shared memory: not known, sizes are symbolic")
    registers = [b.registers_per_thread for b in facts.buffers if b.registers_per_thread]
    if registers:
        words.append(f"fragments and locals: {quantity(sum(registers), 'register')} per thread")
    return words


def basis_words(facts: KernelFacts) -> list[str]:
    """What the numbers rest on: the specialisation, the sizes of a call, parameters without a value."""
    words = []
    if facts.specialisation:
        words.append(f"for {specialisation_text(facts)}")
    if facts.lowered_with:
        sizes = ", ".join(f"{name}={value}" for name, value in facts.lowered_with)
        words.append(f"layouts and instructions with {sizes}, as a call in this file has it")
    if facts.missing:
        names = ", ".join(facts.missing)
        words.append(f"no value for {names}: give one with `# tilelang: specialize({facts.missing[0]}=...)`")
    return words
