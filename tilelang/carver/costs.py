"""The arguments by which configurations are ranked: what fits a multiprocessor, what bounds a wave of blocks.

Plain on purpose: peaks divided by work, blocks in whole waves. No measurement stands behind them; they choose
what to measure first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tilelang.carver.arch import TileDevice

_BUSY_WARPS = 8  # of a multiprocessor, from which on latencies are hidden
_OTHER_REGISTERS = 40  # of a thread, besides accumulators
_REGISTERS = 255  # of a thread, at most
_STEP_CLOCKS = 30  # of a barrier and the loop around it
_NOT_HIDDEN = 0.25  # part of the work beside what bounds a wave that does not overlap with it
_SHARED_BYTES_PER_CLOCK = 128  # of one multiprocessor


@dataclass(frozen=True)
class Block:
    """What one block needs and does."""

    threads: int
    shared_bytes: int
    accumulators: int  # 32-bit registers of the whole block
    flops: float
    shared_traffic: float  # bytes that its warps read from shared memory
    global_traffic: float  # bytes, with what neighbours have in the cache already taken off
    steps: int = 0  # of the reduction, each with a barrier


def blocks_per_processor(block: Block, arch: TileDevice) -> int:
    """How many blocks a multiprocessor holds; 0 if none."""
    registers = block.accumulators // block.threads + _OTHER_REGISTERS
    if block.shared_bytes > arch.smem_cap or registers > _REGISTERS or block.threads > 1024:
        return 0
    by_shared = arch.max_smem_usage // max(1, block.shared_bytes)
    by_registers = arch.reg_cap // (registers * block.threads)
    return int(min(by_shared, by_registers, arch.max_threads // block.threads))


def launch_time(block: Block, count: int, arch: TileDevice, speed: float = 1.0) -> float:
    """Seconds for `count` blocks in whole waves; `speed` of the arithmetic is 1 for float16 on matrix units.

    Infinite where no block fits.
    """
    held = blocks_per_processor(block, arch)
    if held == 0:
        return math.inf
    held = min(held, -(-count // arch.compute_max_core))
    waves = math.ceil(count / (held * arch.compute_max_core))
    busy = min(1.0, held * block.threads / arch.warp_size / _BUSY_WARPS)
    compute = held * block.flops / (arch.peak_tflops * 1e12 / arch.compute_max_core * speed * busy)
    shared = held * block.shared_traffic / (_SHARED_BYTES_PER_CLOCK * arch.clock * 1e9)
    memory = held * block.global_traffic * arch.compute_max_core / (arch.bandwidth_gbps * 1e9)
    parts = (compute, shared, memory)
    bound = max(parts)
    steps = block.steps * _STEP_CLOCKS / (arch.clock * 1e9)
    return waves * (bound + _NOT_HIDDEN * (sum(parts) - bound) + steps)


def memory_time(count: int, threads: int, bytes_each: float, access_bytes: int, arch: TileDevice) -> float:
    """Seconds for blocks that only move data: full bandwidth from 16-byte accesses and busy processors on."""
    held = max(1, min(arch.max_threads // threads, -(-count // arch.compute_max_core)))
    waves = math.ceil(count / (held * arch.compute_max_core))
    filled = count / (waves * held * arch.compute_max_core)
    busy = min(1.0, held * threads / arch.max_threads * 2)
    width = min(1.0, 0.6 + 0.4 * access_bytes / 16)
    return count * bytes_each / (arch.bandwidth_gbps * 1e9 * width * busy * (0.5 + 0.5 * filled))
