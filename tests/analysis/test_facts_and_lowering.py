"""What the editor says of a kernel before it is lowered is what the lowering of that kernel does.

Facts come from analysis alone, so that they are there at every keystroke. These tests hold them to the
lowering of every example for every GPU target.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.analysis.kernels import source
from tilelang.analysis.check import check_program
from tilelang.arch import cuda, hip, metal
from tilelang.arch.mma import mma_name
from tilelang.arch.target import parse_target
from tilelang.facts.kernel_facts import KernelFacts
from tilelang.frontend.environments.specialise import trace_static
from tilelang.frontend.environments.static_module import StaticModule
from tilelang.jit.compiling import prim_func_of
from tilelang.targets import driver
from tilelang.targets.hip.intrinsics import INTRINSICS as HIP_INTRINSICS
from tilelang.targets.lowered import LoweredKernel
from tilelang.targets.metal.intrinsics import INTRINSICS as METAL_INTRINSICS

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TARGETS = ("cuda:sm_80", "cuda:sm_90", "hip:gfx90a", "hip:gfx942", "metal")
KERNELS = [
    (path.stem, kernel.qualified_name)
    for path in sorted(EXAMPLES.glob("*.py"))
    for kernel in StaticModule(str(path), path.read_text(encoding="utf-8")).kernels
]
both = pytest.mark.parametrize("target", TARGETS)
every_kernel = pytest.mark.parametrize(("file", "kernel"), KERNELS, ids=lambda x: x)


@cache
def facts_and_lowering(path: str, text: str, kernel: str, target: str) -> tuple[KernelFacts, LoweredKernel]:
    module, chosen = StaticModule(path, text), parse_target(target)
    program = trace_static(module, module.kernel(kernel))
    facts, _ = check_program(program, chosen, text)
    return facts, driver.lower(prim_func_of(program, chosen, text), chosen)


def of_example(file: str, kernel: str, target: str) -> tuple[KernelFacts, LoweredKernel]:
    path = EXAMPLES / f"{file}.py"
    return facts_and_lowering(str(path), path.read_text(encoding="utf-8"), kernel, target)


def test_there_are_examples():
    assert ("quickstart", "matmul_relu") in KERNELS and len(KERNELS) >= 8


@both
@every_kernel
def test_shared_bytes(file: str, kernel: str, target: str):
    facts, lowered = of_example(file, kernel, target)
    assert facts.shared_bytes is not None
    if "freed" in lowered.layouts:  # what its warp groups wait for is no tile of the author's
        assert 0 < lowered.plan.shared_bytes - facts.shared_bytes <= 1024
    elif facts.shared_exact:
        assert facts.shared_bytes == lowered.plan.shared_bytes
    else:
        assert facts.shared_bytes <= lowered.plan.shared_bytes


@both
@every_kernel
def test_layouts_and_registers(file: str, kernel: str, target: str):
    facts, lowered = of_example(file, kernel, target)
    for buffer in facts.buffers:
        if buffer.scope == "shared":
            assert (buffer.layout or "row-major") == lowered.layouts[buffer.name], buffer.name
        elif buffer.scope == "fragment" and buffer.layout is not None:
            bits = int("".join(c for c in buffer.dtype if c.isdigit()))
            held = lowered.registers[buffer.name]
            assert buffer.registers_per_thread == -(-held * bits // 32), buffer.name


@both
@every_kernel
def test_instructions(file: str, kernel: str, target: str):
    facts, lowered = of_example(file, kernel, target)
    for op in facts.ops:
        if op.op == "gemm":
            assert op.instruction is not None
            assert lowered.instructions[op.span].removesuffix(", ldmatrix") == op.instruction
            assert ("ldmatrix" in lowered.instructions[op.span]) == ("ldmatrix" in lowered.source.text)
            helper = op.instruction.split()[0].removeprefix("v_").replace("mma.sync", "mma_")
            assert helper in lowered.source.text


def test_the_quickstart_is_told_exactly():
    facts, _ = of_example("quickstart", "matmul_relu", "cuda:sm_90")
    assert facts.shared_exact and facts.shared_bytes == 3 * (128 * 32 + 32 * 128) * 2


TWO_LIVES = source(
    """
@T.prim_func
def lives(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float32")):
    with T.Kernel(1, threads=128):
        first = T.alloc_shared((64, 64), "float32")
        second = T.alloc_shared((64, 64), "float32")
        fragment = T.alloc_fragment((64, 64), "float32")
        T.copy(A, first)
        T.copy(first, fragment)
        T.copy(fragment, second)
        T.copy(second, B)
"""
)


def test_tiles_of_different_lives_are_a_lower_bound():
    facts, lowered = facts_and_lowering("lives.py", TWO_LIVES, "lives", "cuda:sm_90")
    assert (facts.shared_bytes, facts.shared_exact) == (16384, False)
    assert 16384 <= lowered.plan.shared_bytes <= 32768


@pytest.mark.parametrize("sm", [80, 89, 90])
def test_every_mma_of_the_table_is_emitted(sm: int):
    for one in cuda.matrix_instructions(sm):
        for accumulator in one.accumulators:
            assert mma_name(one.shape_text, one.operand, accumulator), one


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
def test_every_mfma_of_the_table_is_emitted(arch: str):
    assert all(one.name.removeprefix("v_") in HIP_INTRINSICS for one in hip.matrix_instructions(arch))


def test_every_simdgroup_instruction_of_the_table_is_emitted():
    assert all(one.name in METAL_INTRINSICS for one in metal.matrix_instructions())
