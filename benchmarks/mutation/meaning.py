"""A mutant run by the meaning of its tile program, where memory has bounds that lowered code may forgive.

The third opinion on mutants with an error that compute the same on the CPU and as emulated threads: lowering
gives the iterations of T.Parallel that lie outside a fragment to no thread, so their accesses never happen,
but the program names elements that do not exist. The oracle knows no rule of `check`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from benchmarks.mutation.truth import Reference, Refused, Truth, adapted, cuda_kernel, program_of
from tilelang.ir.build import build_prim_func
from tilelang.ops.registry import TILE_OPS
from tilelang.reference import ReferenceFailure, run


def judge(text: str, kernel: str, sizes: Mapping[str, str], known: Reference) -> Truth:
    """`wrong` where the program does what the language forbids, else `unjudged`: values are not compared."""
    try:
        program = program_of(text, kernel, sizes)
        start = adapted(cuda_kernel(program).plan, known, sizes)
    except Refused as refused:
        return Truth("wrong", str(refused))
    if start is None:
        return Truth("unjudged", "the interface has another number of dimensions")
    func = build_prim_func(program, {name: op.build for name, op in TILE_OPS.items()})
    try:
        with np.errstate(all="ignore"):
            run(
                func,
                *(start[p.name].copy() for k, p in enumerate(program.params) if k not in program.outputs),
            )
    except ReferenceFailure as failure:
        return Truth("wrong", f"by its meaning: {failure}")
    except NotImplementedError as error:
        return Truth("unjudged", f"without a meaning: {error}")
    return Truth("unjudged", "the oracle finds nothing forbidden")
