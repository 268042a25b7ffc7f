"""What the editor shows, feature by feature: facts and marked text in, plain data out."""

from __future__ import annotations

import pytest

from tests.lsp.fake_compiler import FakeCompiler
from tests.lsp.marked import marked, span_of, text_at
from tilelang.diagnostics.problem import Edit, Fix, Problem, Severity
from tilelang.diagnostics.span import Span
from tilelang.facts.kernel_facts import BufferFact, KernelFacts, LaunchFact, LoopFact, OpFact, Use
from tilelang.facts.reports import GeneratedSource, RunCase, RunResult
from tilelang_lsp.documents.line_index import LineIndex
from tilelang_lsp.ide import navigation
from tilelang_lsp.ide import preview as previews
from tilelang_lsp.ide.diagnostics import diagnostics
from tilelang_lsp.ide.hover import hover
from tilelang_lsp.ide.inlay_hints import inlay_hints
from tilelang_lsp.ide.lenses import lenses
from tilelang_lsp.ide.quick_fixes import quick_fixes
from tilelang_lsp.ide.run_report import one_line, run_problem
from tilelang_lsp.ide.semantic_tokens import semantic_tokens
from tilelang_lsp.ide.symbols import symbols

GEMM = """\
@tilelang.jit
def gemm(A, B):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    C = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, 128), T.ceildiv(M, 128), threads=256) as (bx, by):
        A_s = T.alloc_shared((128, 32), T.float16)
        acc = T.alloc_fragment((128, 128), T.float32)
        for k in T.Pipelined(T.ceildiv(K, 32), num_stages=3):
            T.copy(A[by * 128, k * 32], A_s)
            T.gemm(A_s, A_s, acc)
        T.copy(acc, C[by * 128, bx * 128])
    return C
"""


def gemm_facts(text: str = GEMM) -> KernelFacts:
    """Facts as analysis gives them for GEMM; places are found in `text`, which may have more in it."""

    def at(part: str, nth: int = 0) -> Span:
        return span_of(text, part, nth)

    buffers = (
        BufferFact("A", "global", ("M", "K"), "float16", at("T.Tensor"), at("A:"), role="parameter"),
        BufferFact("C", "global", ("M", "N"), "float16", at("T.empty"), at("C ="), role="output"),
        BufferFact(
            "A_s",
            "shared",
            (128, 32),
            "float16",
            at("T.alloc_shared((128, 32), T.float16)"),
            at("A_s"),
            bytes=8192,
            stages=3,
            layout="64-byte swizzle",
        ),
        BufferFact(
            "acc",
            "fragment",
            (128, 128),
            "float32",
            at("T.alloc_fragment((128, 128), T.float32)"),
            at("acc"),
            bytes=65536,
            layout="mma m16n8 accumulator",
            registers_per_thread=64,
        ),
    )
    uses = tuple(Use(at("A_s", i), 2) for i in range(text.count("A_s"))) + tuple(
        Use(at("acc", i), 3) for i in range(text.count("acc"))
    )
    ops = (
        OpFact(
            "copy",
            at("T.copy(A[by * 128, k * 32], A_s)"),
            at("T.copy"),
            "128×32 float16 (8 KiB), global A → shared A_s",
            "128×32 float16",
            "cp.async 16 B",
        ),
        OpFact(
            "gemm",
            at("T.gemm(A_s, A_s, acc)"),
            at("T.gemm"),
            "acc += A_s · A_s, 128×128×32",
            "128×128×32",
            "wgmma m64n128k16",
            notes=("f32 accumulate",),
        ),
    )
    return KernelFacts(
        "gemm",
        "gemm",
        "eager",
        Span("k.py", 1, 1, text.count("\n"), 13),
        at("gemm"),
        "cuda:sm_90",
        specialisation=(("block_M", "128"),),
        buffers=buffers,
        uses=uses,
        ops=ops,
        loops=(LoopFact("Pipelined", at("T.Pipelined("), ("ceildiv(K, 32)",), "pipelined over K", 3),),
        launch=LaunchFact(("ceildiv(N, 128)", "ceildiv(M, 128)"), 256, at("T.Kernel(")),
        shared_bytes=24576,
        shared_limit=232448,
        symbols=("M", "N", "K"),
    )


def check_hover(line_with_cursor: str, *expected: str) -> None:
    """The hover at `<|>` in one line of GEMM contains every expected text."""
    plain = line_with_cursor.replace("<|>", "")
    assert GEMM.count(plain) >= 1, plain
    text, line, column = marked(GEMM.replace(plain, line_with_cursor, 1))
    assert text == GEMM
    found = hover([gemm_facts()], LineIndex(GEMM), line, column)
    assert found is not None, "no hover"
    for part in expected:
        assert part in found.markdown, found.markdown


class TestHover:
    def test_shared_buffer(self):
        check_hover(
            "T.gemm(A<|>_s, A_s, acc)",
            "A_s: float16[128, 32] shared",
            "8 KiB × 3 stages = 24 KiB",
            "layout: 64-byte swizzle",
            "for block_M=128",
        )

    def test_fragment(self):
        check_hover("<|>acc = T.alloc", "acc: float32[128, 128] fragment", "64 registers per thread")

    def test_tile_op(self):
        check_hover("T.ge<|>mm(A_s", "acc += A_s · A_s", "cuda:sm_90: wgmma m64n128k16", "f32 accumulate")

    def test_loop(self):
        check_hover("in T.Pipe<|>lined(", "pipelined over K", "3 stages")

    @pytest.mark.parametrize("place", ["def ge<|>mm(", "with T.Ker<|>nel("])
    def test_kernel(self, place):
        check_hover(
            place,
            "grid: ceildiv(N, 128)×ceildiv(M, 128) blocks",
            "256 threads per block",
            "shared memory: 24 KiB of 227 KiB (11 %)",
        )

    def test_nothing_elsewhere(self):
        text, line, column = marked(GEMM.replace("return C", "ret<|>urn C"))
        assert hover([gemm_facts()], LineIndex(text), line, column) is None


class TestInlayHints:
    def test_allocations_and_tile_ops(self):
        shown = {(h.line, h.label) for h in inlay_hints([gemm_facts()], 1, 99)}
        assert shown == {
            (5, ": float16[M, N]"),
            (7, ": float16[128, 32] × 3 stages, 24 KiB"),
            (8, ": float32[128, 128]"),
            (10, "128×32 float16"),
            (11, "128×128×32"),
        }

    def test_only_the_lines_asked_for(self):
        assert {h.line for h in inlay_hints([gemm_facts()], 8, 10)} == {8, 10}

    def test_stand_behind_the_name(self):
        hint = next(h for h in inlay_hints([gemm_facts()], 8, 8))
        assert GEMM.split("\n")[7][: hint.column - 1].strip() == "acc"


class TestLenses:
    def test_titles(self):
        titles = [lens.title for lens in lenses(gemm_facts().span, "gemm", gemm_facts())]
        assert titles == [
            "▶ run & assert vs torch",
            "preview CUDA",
            "preview HIP",
            "preview Metal",
            "shared memory 24 KiB of 227 KiB",
        ]

    def test_of_a_kernel_not_analysed_yet(self):
        assert len(list(lenses(gemm_facts().span, "gemm", None))) == 4

    def test_last_result_is_shown(self):
        passed = RunResult("gemm", True, "CPU (no GPU found)", "ref_program", latency_ms=0.5)
        assert list(lenses(gemm_facts().span, "gemm", None, passed))[-1].title.startswith("✓ gemm matches")


class TestRunReport:
    CASE = RunCase((("M", 200),), False, 3.0, 0.5, (0.01, 0.02), 7, 100, (0, 3), 4.0, 1.0, "..#")

    def test_mismatch(self):
        result = RunResult("gemm", False, "CPU (no GPU found)", "ref_program", (self.CASE,))
        problem = run_problem(result, gemm_facts().name_span)
        assert problem.rule == "run-mismatch"
        assert "7 of 100 values wrong for M=200, first at [0, 3]: 4 instead of 1" in problem.message
        assert "..#" in problem.message

    def test_wrong_only_for_uneven_sizes_is_said(self):
        right = RunCase((("M", 256),), True, 0.0, 0.0, (0.01, 0.02))
        result = RunResult("gemm", False, "CPU", "ref_program", (right, self.CASE))
        assert "It is right for M=256." in run_problem(result, gemm_facts().name_span).message

    def test_error(self):
        result = RunResult("gemm", False, "none", None, error="torch is not installed\nmore")
        assert one_line(result) == "✗ gemm: torch is not installed"

    def test_success_is_no_problem(self):
        right = RunCase((("M", 256),), True, 0.001, 0.0, (0.01, 0.02))
        result = RunResult("gemm", True, "NVIDIA H200", "ref", (right,), 0.31, 0.62, tflops=3.4)
        assert run_problem(result, gemm_facts().name_span) is None
        assert one_line(result) == (
            "✓ gemm matches ref: max error 0.001 over (M=256), 0.31 ms, 3.4 TFLOP/s, "
            "2.00× the reference's speed, on NVIDIA H200"
        )
        slow = RunResult("gemm", True, "CPU", "ref", (right,), 4.73, tflops=0.001932)
        assert "4.73 ms, 1.93 GFLOP/s" in one_line(slow)


class TestDiagnostics:
    def test_each_once_and_in_order(self):
        late = Problem("b", Severity.ERROR, "late", Span("k.py", 9, 1, 9, 2))
        early = Problem("a", Severity.HINT, "early", Span("k.py", 2, 1, 2, 2))
        assert diagnostics([late, early], [late]) == [early, late]


class TestQuickFixes:
    TEXT = "x = T.gemm(a, b, c)\ny = 1  # tilelang: ignore[other]\n"

    def test_fixes_come_before_ignoring(self):
        span = span_of(self.TEXT, "b")
        fix = Fix("Transpose b", (Edit(span, "b, transpose_B=True"),))
        problem = Problem("gemm-shape", Severity.ERROR, "K differs", span, fixes=(fix,))
        found = quick_fixes([problem], LineIndex(self.TEXT), span)
        assert [f.title for f in found] == ["Transpose b", "Ignore gemm-shape on this line"]
        assert found[0].preferred and not found[1].preferred
        assert found[1].edits[0].new_text == "  # tilelang: ignore[gemm-shape]"

    def test_a_second_rule_joins_the_comment(self):
        problem = Problem("gemm-shape", Severity.ERROR, "", span_of(self.TEXT, "y"))
        edit = quick_fixes([problem], LineIndex(self.TEXT), problem.span)[0].edits[0]
        assert edit.new_text == ", gemm-shape"
        assert self.TEXT.split("\n")[1][: edit.span.column - 1].endswith("ignore[other")

    def test_only_where_the_cursor_is(self):
        problem = Problem("gemm-shape", Severity.ERROR, "", span_of(self.TEXT, "b"))
        assert quick_fixes([problem], LineIndex(self.TEXT), span_of(self.TEXT, "y")) == []

    @pytest.mark.parametrize("rule", ["run-mismatch", "run-failed"])
    def test_failures_of_runs_cannot_be_ignored(self, rule: str):
        problem = Problem(rule, Severity.ERROR, "", span_of(self.TEXT, "b"))
        assert quick_fixes([problem], LineIndex(self.TEXT), problem.span) == []


class TestNavigation:
    def test_definition_and_references(self):
        text, line, column = marked(GEMM.replace("T.gemm(A_s, A_s, acc)", "T.gemm(A_s, A_s, a<|>cc)"))
        facts = gemm_facts(text)
        assert navigation.definition([facts], line, column) == span_of(text, "acc")
        assert len(navigation.references([facts], line, column)) == text.count("acc")
        assert text_at(text, navigation.renameable([facts], line, column)) == "acc"

    def test_parameters_are_not_renamed(self):
        _, line, column = marked(GEMM.replace("    A: T", "    <|>A: T"))
        assert navigation.renameable([gemm_facts()], line, column) is None


class TestSymbolsAndTokens:
    def test_symbols(self):
        (kernel,) = symbols([gemm_facts()])
        assert (kernel.name, [c.name for c in kernel.children]) == ("gemm", ["A", "C", "A_s", "acc"])

    def test_tokens_are_in_order_and_know_their_scope(self):
        tokens = semantic_tokens([gemm_facts()])
        assert [t.span for t in tokens] == sorted(t.span for t in tokens)
        assert {text_at(GEMM, t.span): t.scope for t in tokens}["acc"] == "fragment"


class TestPreview:
    def test_addresses_there_and_back(self):
        for address in (
            previews.PreviewAddress("/home/me/my kernels.py", "factory.inner", "cuda"),
            previews.PreviewAddress("C:/kernels.py", "k", "metal"),
            previews.PreviewAddress("/x.py", "k", "cpu"),
        ):
            assert previews.parse_preview_uri(address.uri) == address
        assert previews.PreviewAddress("/a/k.py", "k", "hip").uri == "tilelang-hip:///a/k.py/k.hip"

    @pytest.mark.parametrize("uri", ["file:///a.py", "tilelang-cuda:///k.cu", "tilelang-cuda:///a.py/k.hip"])
    def test_other_addresses_are_refused(self, uri):
        with pytest.raises(ValueError, match=r"expected tilelang-cuda:///file\.py/kernel\.cu"):
            previews.parse_preview_uri(uri)

    def test_every_line_has_an_entry_in_the_line_map(self):
        source = GeneratedSource("k", "cuda:sm_90", "cuda", "// k for cuda:sm_90\nvoid k() {\n}", (0, 7))
        made = previews.preview(source)
        assert made.text.endswith("}\n")
        assert made.line_map == (0, 7, 0)

    def test_a_failure_is_a_readable_text(self):
        address = previews.PreviewAddress("/a.py", "k", "cpu")
        made = previews.failed_preview(address, "line 3: no\nline 4: neither")
        assert made.text == "# k cannot be generated for cpu:\n#   line 3: no\n#   line 4: neither\n"

    def test_configured_architecture_is_used_for_its_own_kind(self):
        assert previews.target_spec("cuda", "cuda:sm_80") == "cuda:sm_80"
        assert previews.target_spec("hip", "cuda:sm_80") == "hip"


def test_fake_compiler_gives_facts_that_survive_the_pipe():
    """The double of the compiler that other tests rest on speaks the same records."""
    module = FakeCompiler().module("k.py", "@jit\ndef k(A):\n    s = T.alloc_shared((4, 4), T.float16)\n")
    report = FakeCompiler().check_kernel(module, module.kernels[0], "cuda:sm_90", {})
    assert KernelFacts.from_json(report.facts.to_json()) == report.facts
