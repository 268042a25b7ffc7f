"""KernelFacts of the quickstart kernel: what hovers and inlay hints show."""

from __future__ import annotations

from tests.analysis.kernels import check
from tests.quickstart import KERNEL
from tilelang.facts.kernel_facts import BufferFact, KernelFacts


def facts(target: str = "cuda:sm_90") -> KernelFacts:
    (kernel,) = check(KERNEL, target).kernels
    return kernel.facts


def buffer(name: str, target: str = "cuda:sm_90") -> BufferFact:
    return next(b for b in facts(target).buffers if b.name == name)


def test_buffers_say_what_they_are():
    a, tile, acc, c = (buffer(n) for n in ("A", "A_shared", "C_local", "C"))
    assert (a.type_text(), a.role, a.bytes) == ("float16[M, K] global", "parameter", None)
    assert (c.type_text(), c.role) == ("float16[M, N] global", "output")
    assert (tile.type_text(), tile.bytes, tile.stages) == ("float16[128, 32] shared", 8192, 3)
    assert tile.layout == "64-byte swizzle"
    assert (acc.layout, acc.registers_per_thread) == ("wgmma m64n128k16 accumulator, warps 4×1", 128)


def test_operations_name_the_instruction_that_is_emitted():
    gemm = next(o for o in facts().ops if o.op == "gemm")
    assert gemm.summary == "C_local += A_shared · B_shared, M×N×K = 128×128×32, float16 → float32"
    assert gemm.instruction == "wgmma m64n128k16 float32.float16, warps 4×1"
    load = facts().ops[1]
    assert load.summary == "128×32 float16 (8 KiB), global A → shared A_shared"


def test_loops_launch_and_budget():
    known = facts()
    assert known.launch is not None
    assert known.launch.grid == ("ceildiv(N, 128)", "ceildiv(M, 128)")
    assert [x.summary for x in known.loops] == [
        "ceildiv(K, 32) iterations, 3 stages",
        "128×128 elements over 128 threads",
    ]
    assert (known.shared_bytes, known.shared_limit) == (3 * 16384, 227 * 1024)
    assert known.symbols == ("M", "N", "K")


def test_every_use_points_at_a_buffer_of_that_name():
    (kernel,) = check(KERNEL).kernels
    assert len(kernel.facts.uses) > 10
    for use in kernel.facts.uses:
        name = kernel.facts.buffers[use.buffer].name
        assert use.span.end_column - use.span.column == len(name)


def test_other_targets_have_other_instructions_and_budgets():
    hip, metal, cpu = facts("hip:gfx942"), facts("metal"), facts("cpu")
    assert hip.ops[3].instruction == "v_mfma_f32_16x16x16f16 m16n16k16 float32.float16, warps 2×1"
    assert (hip.shared_bytes, hip.shared_limit) == (16384, 65536)
    assert metal.shared_limit == 32768
    assert cpu.ops[3].instruction is None and cpu.shared_limit is None


def test_facts_survive_json_and_moving():
    known = facts()
    assert KernelFacts.from_json(known.to_json()) == known
    assert known.shifted(3).shifted(-3) == known


def test_facts_agree_with_what_is_lowered():
    """The editor's numbers come from tables; the lowering of the same kernel must give the same ones."""
    from tests.analysis.kernels import source
    from tilelang.arch.target import parse_target
    from tilelang.frontend.environments.specialise import trace_static
    from tilelang.frontend.environments.static_module import StaticModule
    from tilelang.jit.compiling import prim_func_of
    from tilelang.targets import driver

    target = parse_target("cuda:sm_90")
    module = StaticModule("kernel.py", source(KERNEL))
    program = trace_static(module, module.kernels[0])
    lowered = driver.lower(prim_func_of(program, target, module.text), target)
    known = facts()
    assert lowered.plan.shared_bytes == known.shared_bytes
    for tile in ("A_shared", "B_shared"):
        assert lowered.layouts[tile] == buffer(tile).layout
    assert lowered.layouts["C_local"].startswith(f"{buffer('C_local').registers_per_thread} elements")
    emitted = next(o for o in known.ops if o.op == "gemm").instruction
    assert emitted is not None and "m64n128k16" in emitted and "m64n128k16" in lowered.source.text
