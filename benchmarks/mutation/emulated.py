"""The generated CUDA code of a mutant run by the thread-level emulator of the tests, against the original.

The second opinion on mutants that compute the same on the CPU, where a tile is one piece of memory and loops
run in order: the emulator knows threads, watches races, barriers and every bound, and poisons all memory.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from benchmarks.mutation.truth import Reference, Refused, Truth, adapted, compare, cuda_kernel, program_of
from tests.emulator.block import run
from tests.emulator.memory import EmulationError


def judge(text: str, kernel: str, sizes: Mapping[str, str], known: Reference) -> Truth:
    """What emulation says of one run. The program is built without asking any rule."""
    try:
        lowered = cuda_kernel(program_of(text, kernel, sizes))
    except Refused as refused:
        return Truth("wrong", str(refused))
    start = adapted(lowered.plan, known, sizes)
    if start is None:
        return Truth("unjudged", "the interface has another number of dimensions")
    tensors = {name: np.ascontiguousarray(array) for name, array in start.items()}
    numbers = {name: int(value) for name, value in sizes.items() if value.isdigit()}
    try:
        with np.errstate(all="ignore"):
            run(lowered, tensors, numbers)
    except EmulationError as error:
        return Truth("wrong", f"emulated: {error}")
    except NotImplementedError as error:
        return Truth("unjudged", f"not emulated: {error}")
    difference = compare(known, tensors)
    return (
        Truth("wrong", f"emulated: {difference}")
        if difference
        else Truth("right", "emulated: computes the same")
    )
