"""Source from a file's text: the head line, the line map, and what is refused; the file is never imported."""

from __future__ import annotations

import textwrap

import pytest

from tilelang.diagnostics.error import KernelError
from tilelang.diagnostics.problem import Severity
from tilelang.jit.static import generate_source

TEXT = textwrap.dedent("""
    import tilelang
    import tilelang.language as T

    raise SystemExit("this file must not be imported")


    @tilelang.jit
    def scale(A, block: int = 64):
        N = T.const("N")
        A: T.Tensor((N,), T.float32)
        B = T.empty((N,), T.float32)
        with T.Kernel(T.ceildiv(N, block), threads=64) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] = A[bx * block + i] * 2
        return B


    @tilelang.jit
    def unfinished(A, block):
        A: T.Tensor((64,), T.float32)
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((block,), T.float32)
            T.copy(A[0], s)
""")


def test_the_first_line_names_the_specialisation_and_lines_lead_back():
    source = generate_source("k.py", TEXT, "scale", "cuda:sm_80", {"N": "1000", "block": "128"})
    lines = source.text.splitlines()
    assert lines[0] == "// scale for cuda:sm_80, with N=1000, block=128"
    assert len(source.line_map) == len(lines)
    stored = next(i for i, line in enumerate(lines) if "B[" in line)
    assert TEXT.splitlines()[source.line_map[stored] - 1].strip().startswith("B[bx * block + i] =")


def test_sizes_stay_symbols_without_a_value():
    assert "int N" in generate_source("k.py", TEXT, "scale", "cuda:sm_80").text


def test_every_target():
    for target, mark in (("hip:gfx942", "__global__"), ("metal", "kernel void"), ("cpu", "def scale")):
        assert mark in generate_source("k.py", TEXT, "scale", target).text


def test_a_parameter_without_a_value():
    with pytest.raises(ValueError, match=r"unfinished has no value for block.*specialize\(block=...\)"):
        generate_source("k.py", TEXT, "unfinished", "cuda:sm_80")
    assert generate_source("k.py", TEXT, "unfinished", "cuda:sm_80", {"block": "64"})


def test_a_kernel_that_is_not_there():
    with pytest.raises(LookupError, match="has no kernel called other; it has scale, unfinished"):
        generate_source("k.py", TEXT, "other", "cuda:sm_80")


def test_problems():
    with pytest.raises(KernelError) as raised:
        generate_source("k.py", TEXT.replace("A[bx", "Q[bx"), "scale", "cuda:sm_80")
    assert [p.rule for p in raised.value.problems if p.severity is Severity.ERROR] == ["unknown-name"]
    with pytest.raises(KernelError):
        generate_source("k.py", TEXT + "def (", "scale", "cuda:sm_80")


def test_sizes_come_from_a_call_of_the_file():
    call = "\n\ndef main(n: int = 4096):\n    return scale(torch.randn(n, device='cuda'))\n"
    text = "import torch\n" + TEXT.replace("    raise SystemExit", "raise SystemExit") + call
    source = generate_source("k.py", text, "scale", "cuda:sm_80")
    assert source.text.startswith("// scale for cuda:sm_80, with N=4096\n")
    assert "int N" not in source.text
