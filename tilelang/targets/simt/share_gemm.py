"""How the warps of a block share a gemm: instruction and grid of warps, or a problem that says why not; and
the layouts that follow for its operands.
"""

from __future__ import annotations

from collections.abc import Callable

from tilelang.arch.instruction import MatrixInstruction
from tilelang.arch.tables import choose_instruction, features
from tilelang.arch.target import Target
from tilelang.arch.warp_partition import WarpPartition, legal_threads, warp_partition
from tilelang.diagnostics.error import KernelError
from tilelang.diagnostics.rules import resource as rules
from tilelang.ir.spans import place_of
from tilelang.layout.fragment import Fragment
from tilelang.layout.gemm_operands import GemmFragments
from tilelang.layout.shared import SharedLayout
from tilelang.ops.gemm import Gemm
from tilelang.ops.gemm_plan import plan_text
from tilelang.passes.infer_layouts import GemmLayouts
from tilelang.passes.walk import FRAGMENT, bits_of, shape_of

Choose = Callable[[Target, str, str, int], MatrixInstruction | None]


def share_gemm(
    gemm: Gemm, threads: int, target: Target, choose: Choose = choose_instruction
) -> tuple[MatrixInstruction, WarpPartition]:
    """The matrix instruction and the grid of warps. Raises KernelError where the target has neither."""
    m, n, k = gemm.shape
    operand, result = str(gemm.a.source.dtype), str(gemm.c.source.dtype)
    span = place_of(gemm.span)
    found = choose(target, operand, result, k)
    other = str(gemm.b.source.dtype)
    if other != operand and frozenset((operand, other)) not in features(target).mixed_operands:
        operand, found = f"{operand} times {other}", None
    if found is None:
        problem = rules.GEMM_INSTRUCTION.at(span, operand=operand, accumulator=result, k=k, target=target)
        raise KernelError([problem])
    warps = threads // target.warp_size
    grid = warp_partition(gemm.policy, m, n, warps, found.m, found.n)
    if grid is None:
        legal = legal_threads(m, n, target.warp_size, found.m, found.n)
        problem = rules.GEMM_WARPS.at(
            span,
            warps=warps,
            threads=threads,
            m=m,
            n=n,
            step_m=found.m,
            step_n=found.n,
            target=target,
            legal=", ".join(map(str, legal)),
        )
        raise KernelError([problem])
    return found, grid


def instruction_text(gemm: Gemm, instruction: MatrixInstruction, warps: WarpPartition) -> str:
    """What the hover says of this gemm: `mma.sync m16n8k16 float32.float16, warps 2×2`."""
    return plan_text(instruction, str(gemm.a.source.dtype), str(gemm.c.source.dtype), warps)


def imposed(
    gemm: Gemm, layouts: GemmFragments, shared_tile: Callable[[tuple[int, ...], int], SharedLayout]
) -> GemmLayouts:
    """The layouts of the operands of a gemm: as `layouts` in fragments, by `shared_tile` (of the shape and
    the bits of an element) in shared memory.
    """
    fragments = {gemm.c.source.__chandle__(): of_rank(layouts.c, shape_of(gemm.c.source))}
    shared: dict[int, SharedLayout] = {}
    for operand, fragment in ((gemm.a.source, layouts.a), (gemm.b.source, layouts.b)):
        if operand.scope() == FRAGMENT:
            fragments[operand.__chandle__()] = of_rank(fragment, shape_of(operand))
        else:
            shared[operand.__chandle__()] = shared_tile(shape_of(operand), bits_of(str(operand.dtype)))
    return GemmLayouts(fragments, shared)


def of_rank(layout: Fragment, shape: tuple[int, ...]) -> Fragment:
    """The layout of a matrix as that of a buffer with leading dimensions of 1."""
    return layout if shape == layout.shape else Fragment(shape, layout.digits, layout.replicate)
