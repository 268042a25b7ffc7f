"""Golden sources: four kernels as each target prints them, and proof that the vendors' compilers take them.

A change of lowering or emission shows here as a diff to be read. `pytest tests/golden --update-golden` writes
the files anew; nothing else may edit them.
"""

from __future__ import annotations

import difflib
import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.emit.example_cases import EXAMPLES
from tests.emit.host_run import check_metal, needs_clang
from tilelang.arch.target import Target
from tilelang.facts.reports import GeneratedSource
from tilelang.jit.static import generate_source
from tilelang.targets.hip.toolchain import assembly

HERE = Path(__file__).parent
TARGETS = {"cu": "cuda:sm_80", "hip": "hip:gfx942", "metal": "metal"}
SIZES = {"M": "1024", "N": "1024", "K": "1024"}
# name of the file -> example, kernel, what is fixed
KERNELS = {
    "vector_add": ("vector_add.py", "add", {}),
    "softmax": ("softmax.py", "softmax", {"M": "4096", "N": "2048"}),
    "gemm_relu": ("quickstart.py", "matmul_relu", SIZES),
    "gemm_dynamic_m": ("gemm_dynamic_m.py", "gemm_any_m", {"N": "1024", "K": "1024"}),
}
GEMMS = [name for name in KERNELS if name.startswith("gemm")]

needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")


def generated(name: str, target: str) -> GeneratedSource:
    file, kernel, choice = KERNELS[name]
    text = (EXAMPLES / file).read_text()
    return generate_source(file, text, kernel, target, choice)


@pytest.mark.parametrize("extension", TARGETS)
@pytest.mark.parametrize("name", KERNELS)
def test_source_is_the_golden_one(name: str, extension: str, request: pytest.FixtureRequest) -> None:
    path = HERE / f"{name}.{extension}"
    text = generated(name, TARGETS[extension]).text
    if request.config.getoption("--update-golden"):
        path.write_text(text)
        return
    assert path.exists(), f"{path.name} is missing: run pytest tests/golden --update-golden and review it"
    golden = path.read_text()
    diff = "".join(
        difflib.unified_diff(
            golden.splitlines(True), text.splitlines(True), f"golden/{path.name}", "generated"
        )
    )
    assert text == golden, f"review, then run pytest tests/golden --update-golden:\n{diff}"


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("extension", TARGETS)
def test_every_line_of_the_kernel_has_a_python_line(name: str, extension: str) -> None:
    source = generated(name, TARGETS[extension])
    lines = source.text.splitlines()
    assert len(source.line_map) == len(lines)
    start = next(
        i for i, text in enumerate(lines) if "__global__ void" in text or text.startswith("kernel void")
    )
    end = next(i for i in range(start, len(lines)) if lines[i] == "}")
    assert all(source.line_map[start : end + 1])
    python = (EXAMPLES / KERNELS[name][0]).read_text().splitlines()
    assert all(0 < n <= len(python) for n in source.line_map[start : end + 1])
    if name == "gemm_relu":
        product = next(
            i
            for i in range(start, end)
            if "mma_m16n8k16" in lines[i] or "mfma_" in lines[i] or "simdgroup_multiply" in lines[i]
        )
        assert "T.gemm(" in python[source.line_map[product] - 1]


@pytest.mark.toolchain
@needs_nvcc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", KERNELS)
def test_nvcc_compiles_cuda(name: str, arch: str, tmp_path: Path) -> None:
    cubin = tmp_path / "k.cubin"
    number = arch.removeprefix("sm_")
    flags = [f"-gencode=arch=compute_{number},code={arch}", "-std=c++17", "-Werror", "all-warnings", "-cubin"]
    command = ["nvcc", *flags, "-o", str(cubin), str(HERE / f"{name}.cu")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    sass = disassemble(cubin)
    if sass is not None and name in GEMMS:
        assert "HMMA" in sass
        assert "LDGSTS" in sass
        assert "LDSM" in sass
    if sass is not None:
        assert "STL" not in sass, "registers are spilled, or a local array is indexed at run time"


def disassemble(cubin: Path) -> str | None:
    """The SASS, if nvdisasm is on the PATH or installed as a wheel."""
    program = shutil.which("nvdisasm")
    package = importlib.util.find_spec("nvidia")
    for folder in package.submodule_search_locations or () if package is not None else ():
        found = sorted(Path(folder).glob("*/bin/nvdisasm"))
        program = program or (str(found[0]) if found else None)
    if program is None:
        return None
    return subprocess.run([program, "-c", str(cubin)], capture_output=True, text=True, check=True).stdout


@pytest.mark.toolchain
@needs_clang
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
@pytest.mark.parametrize("name", KERNELS)
def test_clang_compiles_hip(name: str, arch: str) -> None:
    text = (HERE / f"{name}.hip").read_text()
    code = assembly(GeneratedSource(name, f"hip:{arch}", "hip", text, ()), Target("hip", arch))
    if name in GEMMS:
        assert "v_mfma_f32_16x16x16" in code
        assert "ds_read" in code
    assert ".private_segment_fixed_size: 0" in code, (
        "registers are spilled, or a local array is indexed at run time"
    )


@needs_clang
@pytest.mark.parametrize("name", KERNELS)
def test_clang_parses_metal(name: str, tmp_path: Path) -> None:
    check_metal((HERE / f"{name}.metal").read_text(), tmp_path)
