"""The run process: what it finds, compares and says, and that nothing a kernel does gets past it.

The kernels are torch code under a foreign `tilelang` (tests/lsp/other_tilelang), since the script must not
depend on ours; examples are run with the real compiler elsewhere.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tilelang.diagnostics.span import Span
from tilelang.facts.kernel_facts import BufferFact, KernelFacts, OpFact
from tilelang.facts.reports import RunResult
from tilelang_lsp.runner.client import RunRequest, run

HERE = Path(__file__).parent
HEAD = "import tilelang\nimport torch\n\n"
NOWHERE = Span("k.py", 1, 1, 1, 2)


def tensor(name: str, *shape: int | str, role: str = "parameter", dtype: str = "float32") -> BufferFact:
    return BufferFact(name, "global", shape, dtype, NOWHERE, NOWHERE, role=role)


def facts(*tensors: BufferFact, name: str = "k", **more) -> KernelFacts:
    return KernelFacts(
        name, name, "eager", NOWHERE, Span("k.py", 5, 5, 5, 6), "cuda:sm_90", buffers=tensors, **more
    )


@pytest.fixture
def run_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest):
    """Run the kernel `k` of a text; `path_first` is put before everything on the interpreter's path.

    On the CPU, also where there is a GPU, for tests that are not marked `gpu`.
    """
    if request.node.get_closest_marker("gpu") is None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")

    async def runs(
        text: str, known: KernelFacts, timeout_s: float = 60.0, path_first: str = "other_tilelang"
    ) -> RunResult:
        monkeypatch.setenv("PYTHONPATH", str(HERE / path_first))
        path = str(tmp_path / "k.py")
        seen: list[str] = []
        known = replace(known, name_span=replace(known.name_span, path=path))
        return await run(RunRequest(path, text, known, text, sys.executable, timeout_s), seen.append)

    return runs


def _has_gpu() -> bool:
    """Asked of the driver, as importing torch here would take seconds."""
    return Path("/proc/driver/nvidia/version").exists() or Path("/dev/nvidia0").exists()


ADD = facts(tensor("A", "N"), tensor("B", "N"), tensor("C", "N", role="output"))


async def test_right_kernel_passes_at_even_and_uneven_sizes(run_text):
    text = HEAD + (
        "print('noise')\nimport os; os.write(1, b'native noise\\n')\n"
        "@tilelang.jit\ndef k(A, B): return A + B\n\n"
        "def ref_program(A, B): return A + B\n"
    )
    result = await run_text(text, ADD)
    assert result.passed, result.error or result.cases
    assert [c.sizes for c in result.cases] == [(("N", 4096),), (("N", 1000),)]
    assert result.reference == "ref_program"
    assert result.device == "CPU (no GPU found)" or result.device.startswith("NVIDIA")
    assert result.latency_ms > 0 and result.gbytes_per_s > 0 and result.reference_ms > 0
    assert "noise" in result.output and "native noise" in result.output


async def test_wrong_only_where_tiles_do_not_divide(run_text):
    text = HEAD + (
        "@tilelang.jit\ndef k(A, B):\n"
        "    C = A + B\n    n = len(A) // 256 * 256\n    C[n:] = 0\n    return C\n\n"
        "def k_ref(A, B): return A + B\n"
    )
    result = await run_text(text, ADD)
    assert not result.passed and result.error is None
    assert [c.passed for c in result.cases] == [True, False]
    wrong = result.cases[1]
    assert wrong.first_mismatch == (768,) and wrong.found == 0.0
    assert wrong.mismatched == 1000 - 768 and wrong.total == 1000
    assert wrong.picture.startswith("." * 24) and "#" in wrong.picture


async def test_arguments_written_in_place_are_outputs(run_text):
    text = HEAD + ("@tilelang.jit\ndef k(A, B, C): torch.mm(A, B, out=C)\n\n# tilelang: reference torch.mm\n")
    gemm = facts(
        tensor("A", "M", "K"),
        tensor("B", "K", "N"),
        tensor("C", "M", "N"),
        ops=(OpFact("gemm", NOWHERE, NOWHERE, "", ""),),
    )
    result = await run_text(text, gemm)
    assert result.passed, result.error or result.cases
    assert result.reference == "torch.mm"
    assert result.tflops is not None


async def test_rounding_passes_and_a_wrong_dtype_of_the_sum_does_not(run_text):
    known = facts(tensor("A", 64, 2048, dtype="float16"), tensor("B", 64, role="output", dtype="float16"))
    text = HEAD + (
        "@tilelang.jit\ndef k(A):\n    s = torch.zeros(64, dtype=torch.{sum_dtype})\n"
        "    for i in range(2048): s = s + A[:, i].to(s.dtype)\n    return s.half()\n\n"
        "def ref_k(A): return A.double().sum(1).half()\n"
    )
    assert (await run_text(text.format(sum_dtype="float32"), known)).passed
    assert not (await run_text(text.format(sum_dtype="float16"), known)).passed


async def test_nothing_to_compare_with(run_text):
    result = await run_text(HEAD + "@tilelang.jit\ndef k(A, B): return A + B\n", ADD)
    assert "there is no torch reference for k" in result.error and "ref_k" in result.error
    assert result.error_span.line == 5


ADD_ROWS = """\
import tilelang
import tilelang.language as T


@tilelang.jit
def k(A, B):
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B: T.Tensor((N,), T.float32)
    C = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, 128), threads=128) as bx:
        for i in T.Parallel(128):
            C[bx * 128 + i] = A[bx * 128 + i] + B[bx * 128 + i]
    return C
"""


async def test_without_a_reference_the_program_says_what_is_right(run_text):
    result = await run_text(ADD_ROWS, ADD, path_first="no_other_tilelang")
    assert result.passed, result.error
    assert result.reference == "the program's own meaning"
    assert result.latency_ms is not None and result.reference_ms is None


UNPACK = """\
import tilelang
import tilelang.language as T


@tilelang.jit
def k(A):
    A: T.Tensor((8, 128), T.int4)
    B = T.empty((8, 128), T.int32)
    with T.Kernel(8, threads=128) as bx:
        for i in T.Parallel(128):
            B[bx, i] = T.cast(A[bx, i], T.int32)
    return B
"""


async def test_elements_that_share_a_byte_are_given_as_bytes(run_text):
    known = facts(tensor("A", 8, 128, dtype="int4"))
    result = await run_text(UNPACK, known, path_first="no_other_tilelang")
    assert result.passed, result.error
    (case,) = result.cases
    assert case.total == 8 * 128


async def test_a_file_that_cannot_be_imported(run_text):
    text = HEAD + "import no_such_module\n\n@tilelang.jit\ndef k(A, B): return A + B\n"
    result = await run_text(text, ADD)
    assert "importing k.py failed: ModuleNotFoundError: No module named 'no_such_module'" in result.error
    assert result.error_span.line == 4


async def test_a_file_of_a_package(run_text, tmp_path: Path):
    """Relative imports and the package's own name work, also where the package imports the file itself; what
    runs is the text of the editor.
    """
    (tmp_path / "__init__.py").write_text("from .k import half\nVALUE = half\n")
    (tmp_path / "k.py").write_text("from .more import one\nhalf = 0.5 * one\n")
    (tmp_path / "more.py").write_text("one = 1.0\n")
    text = (
        f"import tilelang\nimport more\nimport {tmp_path.name}.more\n"
        "from .more import one\nfrom . import VALUE\n"
        "@tilelang.jit\ndef k(A, B): return A + B * (VALUE + 0.5 * one)\n"
        "def ref_program(A, B): return A + B\n"
    )
    result = await run_text(text, ADD)
    assert result.passed, result.error


async def test_a_file_that_exits_at_import(run_text):
    result = await run_text(HEAD + "raise SystemExit(3)\n", ADD)
    assert "importing k.py failed: SystemExit: 3" in result.error


async def test_missing_tile_size(run_text):
    text = HEAD + "@tilelang.jit\ndef k(A, B): return A + B\ndef ref_program(A, B): return A + B\n"
    result = await run_text(text, replace(ADD, missing=("block_M",)))
    assert "there is no value for block_M" in result.error
    assert "# tilelang: specialize(block_M=...)" in result.error


async def test_no_torch(run_text):
    result = await run_text(HEAD, ADD, path_first="no_torch")
    assert "torch is not installed in" in result.error and sys.executable in result.error


async def test_a_crash_names_the_signal(run_text):
    text = HEAD + (
        "import ctypes\n@tilelang.jit\ndef k(A, B): ctypes.string_at(8)\ndef ref_program(A, B): return A\n"
    )
    result = await run_text(text, ADD)
    assert "was ended by SIGSEGV (it probably reads or writes out of bounds)" in result.error


async def test_an_endless_kernel_and_all_it_started_are_ended(run_text, tmp_path):
    text = HEAD + (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid))\n"
        "@tilelang.jit\ndef k(A, B):\n    while True: time.sleep(1)\n"
        "def ref_program(A, B): return A\n"
    )
    started = time.monotonic()
    result = await run_text(text, ADD, timeout_s=25)
    assert "did not finish within 25 s and was ended" in result.error
    assert time.monotonic() - started < 35
    child = int((tmp_path / "pid").read_text())
    for _ in range(50):
        if not _is_alive(child):
            break
        await asyncio.sleep(0.1)
    assert not _is_alive(child)


async def test_cancelling_ends_the_process(run_text, tmp_path):
    pid_file = tmp_path / "pid"
    text = HEAD + f"import os, time\nopen({str(pid_file)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    task = asyncio.ensure_future(run_text(text, ADD))
    for _ in range(300):
        await asyncio.sleep(0.1)
        if pid_file.exists() and pid_file.read_text():
            break
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not _is_alive(int(pid_file.read_text()))


@pytest.mark.gpu
@pytest.mark.skipif(not _has_gpu(), reason="no NVIDIA GPU here")
async def test_on_a_gpu_a_large_case_is_asserted_and_timed(run_text):
    text = HEAD + "@tilelang.jit\ndef k(A, B): return A @ B\n\ndef ref_program(A, B): return torch.mm(A, B)\n"
    gemm = facts(
        tensor("A", "M", "K", dtype="float16"),
        tensor("B", "K", "N", dtype="float16"),
        tensor("C", "M", "N", dtype="float16", role="output"),
        ops=(OpFact("gemm", NOWHERE, NOWHERE, "", ""),),
    )
    result = await run_text(text, gemm)
    assert result.passed, result.error or result.cases
    assert result.device.startswith("NVIDIA")
    assert result.cases[2].sizes == (("M", 4096), ("K", 4096), ("N", 4096))
    assert result.tflops > 1 and 0.01 < (result.roofline_share or 0.5) < 1.1


OUT_OF_BOUNDS = """\
import tilelang
import tilelang.language as T


@tilelang.jit(pass_configs={"tl.disable_safe_memory_legalize": True})
def k(A, B):
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B: T.Tensor((N,), T.float32)
    C = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, 128), threads=128) as bx:
        for i in T.Parallel(128):
            C[bx * 128 + i] = A[T.cast(B[bx * 128 + i], T.int32) + N * 100000]
    return C


def ref_k(A, B):
    return A + B
"""


@pytest.mark.gpu
@pytest.mark.skipif(not _has_gpu(), reason="no NVIDIA GPU here")
async def test_a_kernel_that_reads_out_of_bounds_on_the_device_is_said_to(run_text):
    """Without the guards that the language has; with them such reads give zero."""
    result = await run_text(OUT_OF_BOUNDS, ADD, path_first="no_other_tilelang")
    assert not result.passed
    assert "accessed memory out of bounds on the device" in result.error
    guarded = await run_text(
        OUT_OF_BOUNDS.replace('(pass_configs={"tl.disable_safe_memory_legalize": True})', "")
        .replace("return A + B", "return torch.zeros_like(A)")
        .replace("import tilelang\n", "import tilelang\nimport torch\n", 1),
        ADD,
        path_first="no_other_tilelang",
    )
    assert guarded.passed, guarded.error


async def test_an_interpreter_that_is_not_there():
    request = RunRequest("/k.py", HEAD, ADD, HEAD, "/nowhere/python", 10)
    result = await run(request, lambda message: None)
    assert "cannot start /nowhere/python" in result.error and "tilelang.interpreter" in result.error


def _is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody has asked about yet does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not (stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z")
