"""What lowering adds to a kernel's report: it agrees with the lowered kernel, and nothing is guessed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.analysis.kernels import source
from tilelang.analysis.check import check_kernel
from tilelang.arch.target import parse_target
from tilelang.diagnostics.problem import Problem, Severity
from tilelang.facts.kernel_facts import BufferFact, KernelFacts, OpFact
from tilelang.facts.reports import KernelReport
from tilelang.frontend.environments.specialise import chosen_specialisation, trace_static, with_call_sizes
from tilelang.frontend.environments.static_module import StaticModule
from tilelang.jit.compiling import prim_func_of
from tilelang.jit.details import detailed_report
from tilelang.targets import driver
from tilelang_lsp.documents.line_index import LineIndex
from tilelang_lsp.ide.hover import hover
from tilelang_lsp.ide.lenses import lenses

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.py"))

TRANSPOSED = """
@tilelang.jit
def k(A, B, C):
    A: T.Tensor((64, 64), T.float16)
    B: T.Tensor((64, 64), T.float16)
    C: T.Tensor((64, 64), T.float32)
    with T.Kernel(1, threads=128) as bx:
        a = T.alloc_shared((64, 64), T.float16)
        b = T.alloc_shared((64, 64), T.float16)
        c = T.alloc_fragment((64, 64), T.float32)
        d = T.alloc_fragment((64, 64), T.float32)
        T.copy(A, a)
        T.copy(B, b)
        T.gemm(a, b, c, clear_accum=True)
        T.gemm(a, b, d, clear_accum=True)
        for i, j in T.Parallel(64, 64):
            c[i, j] = c[i, j] + d[j, i]
        T.copy(c, C)
"""
LOOP = "for i, j in T.Parallel(64, 64):"


def report_of(text: str, target: str = "cuda:sm_80") -> KernelReport:
    module = StaticModule("kernel.py", text)
    return detailed_report(module, module.kernels[0], target)


def example(name: str, target: str = "cuda:sm_80") -> tuple[str, KernelFacts]:
    text = next(p for p in EXAMPLES if p.stem == name).read_text(encoding="utf-8")
    return text, report_of(text, target).facts


def buffer(facts: KernelFacts, name: str) -> BufferFact:
    return next(b for b in facts.buffers if b.name == name)


def hover_at(text: str, facts: KernelFacts, part: str, shift: int = 0) -> str:
    """The hover `shift` characters behind the first `part`."""
    at = text.index(part) + shift
    line = text.count("\n", 0, at)
    found = hover([facts], LineIndex(text), line + 1, at - (text.rfind("\n", 0, at) + 1) + 1)
    assert found is not None
    return found.markdown


@pytest.mark.parametrize("target", ["cuda:sm_80", "cuda:sm_90"])
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_facts_agree_with_the_lowered_kernel(path: Path, target: str):
    text = path.read_text(encoding="utf-8")
    module = StaticModule(str(path), text)
    for kernel in module.kernels:
        facts = detailed_report(module, kernel, target).facts
        under = chosen_specialisation(module, kernel, {})
        under = with_call_sizes(under, trace_static(module, kernel, specialisation=under))
        program = trace_static(module, kernel, specialisation=under)
        lowered = driver.lower(prim_func_of(program, parse_target(target), text), parse_target(target))
        assert facts.shared_bytes == lowered.plan.shared_bytes and facts.shared_exact
        names = Counter(b.name for b in facts.buffers)
        for known in facts.buffers:
            if known.scope == "fragment":
                assert names[known.name] == 1
                elements = lowered.registers[known.name]
                assert known.registers_per_thread == -(-elements * _bits(known.dtype) // 32)
                assert known.layout == lowered.layouts[known.name] or "mma" in (known.layout or "")
            elif known.scope == "shared":
                assert known.layout == lowered.layouts[known.name]
        by_span = {op.span: op for op in facts.ops}
        for span, instruction in lowered.instructions.items():
            assert _contains(by_span[span], instruction)


def _bits(dtype: str) -> int:
    return int(dtype.lstrip("bfloatuin"))


def _contains(op: OpFact, instruction: str) -> bool:
    first, *others = instruction.split(", ")
    known = (op.instruction or "").split(", ")
    return known[0].startswith(first) and all(o in known for o in others)


def test_a_copy_names_its_instruction_and_the_sizes_it_was_chosen_for():
    text, facts = example("quickstart")
    shown = hover_at(text, facts, "T.copy(A[", 2)
    assert "cuda:sm_80: cp.async 16 bytes" in shown
    assert "with M=1000, K=520, N=1024, as a call in this file has it" in shown


def test_a_copy_that_cp_async_cannot_do_names_none():
    text = next(p for p in EXAMPLES if p.stem == "quickstart").read_text(encoding="utf-8")
    odd = text.replace("520", "521")
    facts = report_of(odd).facts
    assert ("K", "521") in facts.lowered_with
    shown = hover_at(odd, facts, "T.copy(A[", 2)
    assert "cp.async" not in shown and "2-byte loads" in shown
    assert "cp.async 16 bytes" in hover_at(odd, facts, "T.copy(B[", 2)


def test_operations_that_share_a_line_keep_their_own_instructions():
    text = next(p for p in EXAMPLES if p.stem == "quickstart").read_text(encoding="utf-8")
    first, second = (
        next(line for line in text.split("\n") if part in line) for part in ("T.copy(A[", "T.gemm(")
    )
    lines = [line for line in text.split("\n") if line not in (first, second)]
    after = next(k for k, line in enumerate(lines) if "T.copy(B[" in line)
    lines[after] = f"{first}; {lines[after].strip()}; {second.strip()}"
    facts = report_of("\n".join(lines)).facts
    found = [op.instruction or "" for op in facts.ops if op.span.line == after + 1]
    assert found[:2] == ["cp.async 16 bytes"] * 2 and found[2].startswith("mma.sync") and len(found) == 3


def test_other_copies_say_how_wide_they_load_and_store():
    text, facts = example("rms_norm")
    assert "16-byte loads, 16-byte stores" in hover_at(text, facts, "T.copy(X", 2)
    text, facts = example("quickstart")
    lowered = hover_at(text, facts, "T.copy(C_local, C[", 2)
    assert "4-byte stores" in lowered and "loads" not in lowered


def test_fragments_no_gemm_touches_have_layout_and_registers():
    text, facts = example("softmax")
    shown = hover_at(text, facts, "x = T.alloc_fragment")
    assert "layout: 16 elements in each of 128 threads" in shown and "16 registers per thread" in shown
    assert "every element in 128 threads" in (buffer(facts, "row_max").layout or "")


def test_the_lens_counts_the_workspace_of_reductions():
    _, facts = example("softmax")
    titles = [lens.title for lens in lenses(facts.span, facts.name, facts)]
    assert any(t.startswith("shared memory 192 B of") for t in titles)


def test_metal_counts_padded_rows():
    _, facts = example("gemm_dynamic_m", "metal")
    plain = sum((b.bytes or 0) * b.stages for b in facts.buffers if b.scope == "shared")
    assert facts.shared_exact and facts.shared_bytes is not None and facts.shared_bytes > plain


def test_on_the_cpu_nothing_changes_but_instructions():
    module = StaticModule("kernel.py", next(p for p in EXAMPLES if p.stem == "softmax").read_text("utf-8"))
    before = check_kernel(module, module.kernels[0], "cpu").facts
    after = detailed_report(module, module.kernels[0], "cpu").facts
    assert (after.buffers, after.shared_bytes) == (before.buffers, before.shared_bytes)


def layout_problem(text: str) -> Problem | None:
    problems = report_of(source(text)).problems
    return next((p for p in problems if p.rule == "fragment-layout"), None)


def test_problems_that_only_lowering_finds():
    problem = layout_problem(TRANSPOSED)
    assert problem is not None and problem.severity is Severity.ERROR
    lines = source(TRANSPOSED).split("\n")
    assert LOOP in lines[problem.span.line - 1] and len(problem.related) == 3
    module = StaticModule("kernel.py", source(TRANSPOSED))
    assert check_kernel(module, module.kernels[0], "cuda:sm_80").problems == ()


def test_sizes_that_are_open_do_not_hide_them():
    symbolic = TRANSPOSED.replace(
        "    A: T.Tensor((64, 64), T.float16)\n",
        '    N = T.const("N")\n    A: T.Tensor((64, N), T.float16)\n',
    ).replace("T.copy(A, a)", "T.copy(A[0, bx * 64], a)")
    problem = layout_problem(symbolic)
    assert problem is not None and problem.severity is Severity.ERROR


def test_a_variable_of_an_open_grid_in_place_of_an_index_does_not_hide_them():
    """With a large N the row bx lies outside d, with a small one no thread has it: wrong for every N."""
    text = TRANSPOSED.replace(
        "    A: T.Tensor((64, 64), T.float16)\n",
        '    N = T.const("N")\n    A: T.Tensor((N, 64), T.float16)\n',
    )
    text = text.replace("T.copy(A, a)", "T.copy(A[bx * 8, 0], a)").replace("T.Kernel(1,", "T.Kernel(N // 8,")
    problem = layout_problem(text.replace("d[j, i]", "d[bx, j]"))
    assert problem is not None and problem.severity is Severity.ERROR
    assert layout_problem(text.replace("d[j, i]", "d[i, j]")) is None


def test_what_hangs_on_open_sizes_is_a_hint():
    """With N a multiple of 64 every thread finds its own element; with others it does not."""
    text = """
@tilelang.jit
def k(A, C):
    N = T.const("N")
    A: T.Tensor((64, N), T.float32)
    C: T.Tensor((64, 64), T.float32)
    with T.Kernel(1, threads=128) as bx:
        c = T.alloc_fragment((64, 64), T.float32)
        T.copy(A[0:64, 0:64], c)
        for i, j in T.Parallel(64, 64):
            c[i, j] = c[i, (j + N) % 64] + 1
        T.copy(c, C)
"""
    problem = layout_problem(text)
    assert problem is not None and problem.severity is Severity.HINT


def test_layouts_of_tiles_of_open_width_are_not_compared():
    """Both products lie alike for every D; only without its number the inference finds no common place."""
    text = """
@tilelang.jit
def k(Q, K, V, P):
    S, D = T.const("S, D")
    Q: T.Tensor((S, D), T.float16)
    K: T.Tensor((S, D), T.float16)
    V: T.Tensor((S, D), T.float16)
    P: T.Tensor((S, D), T.float32)
    with T.Kernel(T.ceildiv(S, 32), threads=128) as bx:
        q = T.alloc_shared((32, D), T.float16)
        s = T.alloc_fragment((32, 32), T.float32)
        d = T.alloc_fragment((32, 32), T.float32)
        w = T.alloc_fragment((32, 32), T.float16)
        o = T.alloc_fragment((32, D), T.float32)
        k = T.alloc_shared((32, D), T.float16)
        v = T.alloc_shared((32, D), T.float16)
        T.copy(Q[bx * 32, 0], q)
        T.copy(K[bx * 32, 0], k)
        T.copy(V[bx * 32, 0], v)
        T.clear(s)
        T.clear(d)
        T.clear(o)
        T.gemm(q, k, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
        T.gemm(q, v, d, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
        for i, j in T.Parallel(32, 32):
            w[i, j] = s[i, j] * d[i, j]
        T.gemm(w, v, o, policy=T.GemmWarpPolicy.FullRow)
        T.copy(o, P[bx * 32, 0])
"""
    assert layout_problem(text) is None


def test_an_open_size_that_a_call_gives_is_not_called_a_run_time_size():
    text = """
@tilelang.jit
def k(A):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.float16)
    B = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(M, 2), threads=128) as bx:
        a = T.alloc_fragment((2, N), T.float32)
        T.copy(A[bx * 2, 0], a)
        T.copy(a, B[bx * 2, 0])
    return B
"""
    assert {p.rule for p in report_of(source(text)).problems} <= {"guarded-tail"}


def test_a_problem_of_one_specialisation_is_a_warning_that_names_it():
    text = TRANSPOSED.replace("def k(A, B, C):", "def k(A, B, C, swap: bool = True):")
    text = text.replace("d[j, i]", "(d[j, i] if swap else d[i, j])")
    text += "\n\nk(x, x, x, True)\nk(x, x, x, False)\n"
    problem = layout_problem(text)
    assert problem is not None and problem.severity is Severity.WARNING
    assert problem.message.startswith("with swap=True: d[j, i] and c[i, j] lie in different threads")


def test_a_comment_silences_them_and_is_never_called_unused():
    ignored = TRANSPOSED.replace(LOOP, f"{LOOP}  # tilelang: ignore[fragment-layout]")
    assert report_of(source(ignored)).problems == ()
    needless = ignored.replace("d[j, i]", "d[i, j]")
    assert report_of(source(needless)).problems == ()


def test_kernels_with_errors_or_unknown_parts_keep_their_report():
    wrong = TRANSPOSED.replace("a = T.alloc_shared((64, 64)", "a = T.alloc_shared((64, 32)")
    unknown = TRANSPOSED.replace("def k(A, B, C):", "def k(A, B, C, n):").replace(
        "(64, 64), T.float16)\n    B", "(64, n), T.float16)\n    B"
    )
    for text in (wrong, unknown):
        module = StaticModule("kernel.py", source(text))
        before = check_kernel(module, module.kernels[0], "cuda:sm_80")
        assert detailed_report(module, module.kernels[0], "cuda:sm_80") == before
        assert before.facts.missing or any(p.severity is Severity.ERROR for p in before.problems)


def test_an_operation_traced_twice_keeps_its_instruction_to_itself():
    """One line, two copies that come in pieces of different width: nothing is said of it."""
    text = """
@tilelang.jit
def k(A, B, C):
    A: T.Tensor((64, 64), T.float16)
    B: T.Tensor((64, 63), T.float16)
    C: T.Tensor((64, 32), T.float16)
    with T.Kernel(1, threads=128) as bx:
        for k in T.Pipelined(2, num_stages=2):
            for source in (A, B):
                s = T.alloc_shared((64, 32), T.float16)
                T.copy(source[0, k * 32], s)
                T.copy(s, C)
"""
    report = report_of(source(text))
    assert all(op.instruction is None for op in report.facts.ops)


def test_a_bug_of_lowering_is_logged_once_and_keeps_the_report(monkeypatch, caplog):
    def broken(*args):
        raise AssertionError("a bug")

    monkeypatch.setattr(driver, "lower", broken)
    several = source(TRANSPOSED.replace("def k(A, B, C):", "def k(A, B, C, n=1):")) + "\nk(n=2)\nk(n=3)\n"
    module = StaticModule("kernel.py", several)
    before = check_kernel(module, module.kernels[0], "cuda:sm_80")
    with caplog.at_level("WARNING", "tilelang.jit.details"):
        assert detailed_report(module, module.kernels[0], "cuda:sm_80") == before
    (record,) = caplog.records
    assert record.getMessage() == "k cannot be lowered for cuda:sm_80"
    assert "AssertionError: a bug" in caplog.text


SIZED_BY_A_CALL = """
import torch

import tilelang
import tilelang.language as T


@tilelang.jit
def k(A, block: int = 64):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.float16)
    B = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(M, block), threads=128) as bx:
        s = T.alloc_shared((block, 256), T.float16)
        T.copy(A[bx * block, 0], s)
        T.copy(s, B[bx * block, 0])
    return B


def main(M: int = 256, N: int = COLUMNS):
    k(torch.randn(M, N, dtype=torch.float16))
"""


def test_what_is_wrong_at_the_sizes_of_a_call_is_a_warning_that_names_them():
    """256 columns fit into the tile, 512 do not; which of them a caller has only the call says."""
    fits = report_of(SIZED_BY_A_CALL.replace("COLUMNS", "256")).problems
    assert [p for p in fits if p.severity in (Severity.ERROR, Severity.WARNING)] == []
    found = report_of(SIZED_BY_A_CALL.replace("COLUMNS", "512")).problems
    told = [(p.rule, p.severity, p.message) for p in found if p.severity is not Severity.HINT]
    assert [(rule, severity) for rule, severity, _ in told] == [("output-not-written", Severity.WARNING)]
    assert told[0][2].startswith("with M=256, N=512: ")


def test_what_is_slow_at_the_sizes_of_a_call_is_a_hint_that_names_them():
    """Whether a small tile is one of many hangs on sizes that only the call gives."""
    text = """import torch
import tilelang
import tilelang.language as T

@tilelang.jit
def k(A, B, tile: int = 32):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, tile), T.ceildiv(M, tile), threads=128) as (bx, by):
        a = T.alloc_shared((tile, tile), T.float16)
        b = T.alloc_shared((tile, tile), T.float16)
        c = T.alloc_fragment((tile, tile), T.float32)
        T.clear(c)
        for ko in T.Pipelined(T.ceildiv(K, tile), num_stages=3):
            T.copy(A[by * tile, ko * tile], a)
            T.copy(B[ko * tile, bx * tile], b)
            T.gemm(a, b, c)
        T.copy(c, C[by * tile, bx * tile])
    return C

x = torch.zeros(SIZE, SIZE, dtype=torch.float16)
k(x, x)
"""

    def small(size: int) -> list[Problem]:
        report = report_of(text.replace("SIZE", str(size)))
        return [p for p in report.problems if p.rule == "small-gemm-tile"]

    (found,) = small(1024)
    assert found.severity is Severity.HINT and "=1024: a tile of M=32, N=32 gives 16" in found.message
    assert small(64) == []
