"""Pictures of layouts, counted work, environment variables."""

from __future__ import annotations

import re
import xml.etree.ElementTree as tree
from pathlib import Path

import pytest

import tilelang
import tilelang.language as T
from tilelang.carver.arch import CUDA
from tilelang.tools import Analyzer, plot_layout

FRAGMENT = T.Fragment((8, 8), forward_fn=lambda i, j: (i * 4 + j // 2, j % 2))
SWIZZLE = T.Layout((4, 8), lambda i, j: (i, j ^ i))
_SVG = "{http://www.w3.org/2000/svg}"


def cell_texts(path: Path) -> list[str]:
    return [t.text or "" for t in tree.parse(path).getroot().iter(f"{_SVG}text")]


def test_a_fragment_shows_thread_and_register(tmp_path: Path) -> None:
    plot_layout(FRAGMENT, str(tmp_path), "acc", formats="svg,pdf")
    texts = cell_texts(tmp_path / "acc.svg")
    assert texts[0] == "acc: Fragment of 8 x 8"
    assert texts.count("T0") == 2 and texts.count("T31") == 2 and texts.count("L1") == 32
    pdf = (tmp_path / "acc.pdf").read_bytes()
    assert pdf.startswith(b"%PDF-1.4") and pdf.count(b"(T31)") == 2
    start = int(re.search(rb"startxref\n(\d+)", pdf)[1])  # type: ignore[index]
    assert pdf[start : start + 4] == b"xref"


def test_a_layout_from_both_sides(tmp_path: Path) -> None:
    plot_layout(SWIZZLE, str(tmp_path), "s", formats=["svg"])
    cells = cell_texts(tmp_path / "s.svg")
    assert sorted(int(t) for t in cells[1:] if t.isdigit())[-1] == 31
    plot_layout(SWIZZLE, str(tmp_path), "out", formats="svg", view="output", verbose=True)
    assert cell_texts(tmp_path / "out.svg").count("1,3") == 1
    plot_layout(SWIZZLE, str(tmp_path), "wide", formats="svg", grid_shape=(2, 16))
    rectangles = list(tree.parse(tmp_path / "wide.svg").getroot().iter(f"{_SVG}rect"))
    assert len({r.get("y") for r in rectangles}) == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"formats": "gif"}, "formats are"),
        ({"view": "side"}, "view is"),
        ({"grid_shape": (3, 3)}, "does not hold 32"),
    ],
)
def test_refusals_help(tmp_path: Path, options: dict, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        plot_layout(SWIZZLE, str(tmp_path), **options)
    with pytest.raises(TypeError, match="not int"):
        plot_layout(3, str(tmp_path))  # type: ignore[arg-type]


@tilelang.jit(target="cuda:sm_80")
def product(A, B):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)
    with T.Kernel(N // 128, M // 128, threads=128) as (bx, by):
        a = T.alloc_shared((128, 32), T.float16)
        b = T.alloc_shared((32, 128), T.float16)
        c = T.alloc_fragment((128, 128), T.float32)
        T.clear(c)
        for k in T.Pipelined(K // 32, num_stages=2):
            T.copy(A[by * 128, k * 32], a)
            T.copy(B[k * 32, bx * 128], b)
            T.gemm(a, b, c)
        T.copy(c, C[by * 128, bx * 128])
    return C


def test_work_is_counted() -> None:
    found = Analyzer.analysis(product.get_tir(M=1024, N=512, K=256), CUDA("cuda:sm_80"))
    assert found.total_flops == 2 * 1024 * 512 * 256
    blocks = 8 * 4
    assert found.total_global_bytes == blocks * (2 * 128 * 256 + 128 * 128) * 2
    assert found.estimated_time == pytest.approx(
        max(found.total_flops / 312e12, found.total_global_bytes / 1555e9)
    )
    assert found.expected_tflops is not None and found.expected_tflops < 312


def test_environment_variables_are_read_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_CACHE_DIR", "/somewhere")
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    assert tilelang.env.TILELANG_CACHE_DIR == "/somewhere"
    assert tilelang.env.is_cache_globally_disabled() and not tilelang.env.is_cache_enabled()
    monkeypatch.delenv("TILELANG_DISABLE_CACHE")
    assert not tilelang.env.is_cache_globally_disabled()
    monkeypatch.setenv("TILELANG_EXECUTION_BACKEND", "nvrtc")
    assert tilelang.env.get_default_execution_backend() == "nvrtc"
    assert tilelang.env.get_compile_timeout_seconds() is None
    with pytest.raises(AttributeError, match="has no variable 'TILELANG_NOTHING'"):
        tilelang.env.TILELANG_NOTHING  # noqa: B018
