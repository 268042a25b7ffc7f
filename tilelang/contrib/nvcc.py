"""What kernels ask about CUDA before they choose how to compute (versions, what a target has), and CUDA C++
of the author's own through nvcc.
"""

from __future__ import annotations

import functools
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilelang.arch.target import parse_target
from tilelang.facts.reports import GeneratedSource
from tilelang.jit.options import default_target
from tilelang.targets.cuda import toolchain
from tilelang.targets.cuda.inspect_binary import disassembly
from tilelang.targets.toolchain_error import ToolchainError

_FORMATS = ("ptx", "cubin", "fatbin")


def find_cuda_path() -> str:
    """The folder of the CUDA toolkit. Raises RuntimeError without one."""
    return str(Path(get_nvcc_compiler()).parent.parent)


def get_nvcc_compiler() -> str:
    """The path of nvcc. Raises RuntimeError without one."""
    found = toolchain.nvcc()
    if found is None:
        raise RuntimeError("nvcc is not installed; kernels do not need it where NVRTC is")
    return found


@functools.cache
def get_cuda_version(cuda_path: str | None = None) -> tuple[int, ...]:
    """The release of nvcc, such as (13, 0, 88). Raises RuntimeError without one."""
    compiler = get_nvcc_compiler() if cuda_path is None else str(Path(cuda_path) / "bin" / "nvcc")
    said = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout
    match = re.search(r"V(\d+)\.(\d+)\.(\d+)", said)
    if match is None:
        raise RuntimeError(f"{compiler} --version names no version: {said!r}")
    return tuple(map(int, match.groups()))


def get_target_compute_version(target: Any = None) -> str:
    """The compute capability of a target, or of the default one: "9.0". Raises ValueError for another kind
    than CUDA.
    """
    read = default_target() if target is None else parse_target(target)
    if read.kind != "cuda":
        raise ValueError(f"{read} has no compute capability: it is no CUDA target")
    return f"{read.sm // 10}.{read.sm % 10}"


def parse_compute_version(compute_version: str) -> tuple[int, int]:
    """ "9.0" as numbers. Raises RuntimeError for another form."""
    try:
        major, minor = map(int, compute_version.split("."))
    except ValueError:
        raise RuntimeError(f"no compute capability: {compute_version!r}; write it like '9.0'") from None
    return major, minor


def get_target_arch(compute_version: str | tuple[int, int]) -> str:
    """The architecture to compile for: "90a" for "9.0", with all that this generation alone has."""
    parts = parse_compute_version(compute_version) if isinstance(compute_version, str) else compute_version
    return f"{parts[0]}{parts[1]}{'a' if parts[0] >= 9 else ''}"


def get_target_arch_and_code(target: Any = None) -> tuple[str, None]:
    """The architecture of a target as the compiler takes it ("90a"); None: code is made for that alone."""
    return get_target_arch(get_target_compute_version(target)), None


def have_fp16(compute_version: str) -> bool:
    """Whether the device computes in float16."""
    return parse_compute_version(compute_version) >= (5, 3)


def have_int8(compute_version: str) -> bool:
    """Whether the device has dp4a."""
    return parse_compute_version(compute_version) >= (6, 1)


def have_tensorcore(compute_version: str | None = None, target: Any = None) -> bool:
    """Whether the device has tensor cores."""
    return parse_compute_version(compute_version or get_target_compute_version(target)) >= (7, 0)


def have_bf16(compute_version: str) -> bool:
    """Whether the device computes in bfloat16."""
    return parse_compute_version(compute_version) >= (8, 0)


def have_fp8(compute_version: str) -> bool:
    """Whether the device has 8-bit floats."""
    return parse_compute_version(compute_version) >= (8, 9)


def have_tma(target: Any) -> bool:
    """Whether the target has the tensor memory accelerator."""
    return _at_least(target, 90)


def have_mbarrier(target: Any) -> bool:
    """Whether the target has barriers in shared memory that count bytes."""
    return _at_least(target, 80)


def have_pdl(target: Any) -> bool:
    """Whether kernels of the target may start before the one before them ends."""
    return _at_least(target, 90)


def is_hopper(target: Any) -> bool:
    """Whether the target is of compute capability 9."""
    read = parse_target(target)
    return read.kind == "cuda" and 90 <= read.sm < 100


def _at_least(target: Any, sm: int) -> bool:
    read = parse_target(target)
    return read.kind == "cuda" and read.sm >= sm


def compile_cuda(
    code: str,
    target_format: str = "ptx",
    arch: int | str | Sequence[str] | None = None,
    options: str | Sequence[str] | None = None,
    path_target: str | None = None,
    verbose: bool = False,
) -> bytearray:
    """`code` compiled by nvcc as `ptx`, `cubin` or `fatbin`.

    arch: 90, "sm_90a", or nvcc's own flags for architectures as a list; None is the default target's.
    path_target: a file that receives the result too. verbose: print what the compiler says.
    Raises ToolchainError in the compiler's words, RuntimeError without nvcc, ValueError for another format.
    """
    if target_format not in _FORMATS:
        raise ValueError(f"nvcc makes {', '.join(_FORMATS)}, not {target_format!r}")
    given = list(arch) if isinstance(arch, list | tuple) else [f"-arch=sm_{architecture(arch)}"]
    more = options.split() if isinstance(options, str) else list(options or ())
    with tempfile.TemporaryDirectory(prefix="tilelang-nvcc-") as folder:
        source, product = Path(folder, "kernel.cu"), Path(folder, f"kernel.{target_format}")
        source.write_text(code, encoding="utf-8")
        command = [get_nvcc_compiler(), f"--{target_format}", "-O3", *given, *more, "-o", product, source]
        done = subprocess.run(command, capture_output=True, text=True)
        said = (done.stdout + done.stderr).strip()
        if done.returncode:
            raise ToolchainError(f"nvcc refused the source:\n{said}")
        if verbose and said:
            print(said)
        binary = product.read_bytes()
    if path_target:
        Path(path_target).write_bytes(binary)
    return bytearray(binary)


def get_ptx_from_source(code: str, compile_flags: Sequence[str] | None = None, verbose: bool = False) -> str:
    """The PTX of `code` for the default target. Raises as `compile_cuda` does."""
    return compile_cuda(code, "ptx", options=compile_flags, verbose=verbose).decode()


def get_sass_from_source(code: str, compile_flags: Sequence[str] | None = None, verbose: bool = False) -> str:
    """The machine code of `code` for the default target as text.

    Raises as `compile_cuda` does, ToolchainError where the toolkit has no disassembler.
    """
    return disassembly(bytes(compile_cuda(code, "cubin", options=compile_flags, verbose=verbose)))


def default_compile_options(compile_flags: Sequence[str] | None = None) -> list[str]:
    """The options that sources of the author's are compiled with, and `compile_flags`."""
    return ["-std=c++17", *(part for flag in compile_flags or () for part in flag.split())]


def get_nvcc_subprocess_env() -> dict[str, str] | None:
    """The environment of nvcc's process; None: that of this one."""
    return None


def have_cudagraph() -> bool:
    """Whether launches can be captured as a CUDA graph; every toolkit that is supported can."""
    return True


def architecture(arch: int | str | Sequence[str] | None) -> str:
    """The number of an architecture as compilers spell it: "90a" for 90, "sm_90a", "9.0" or None on an H100.

    A plain number stays plain. Raises ValueError where it names none.
    """
    if arch is None:
        return get_target_arch(get_target_compute_version())
    found = re.fullmatch(r"(?:sm_|compute_)?(\d+)\.?(\d)([af]?)", str(arch))
    if found is None:
        raise ValueError(f"no CUDA architecture: {arch!r}; write it like 90 or 'sm_90a'")
    return "".join(found.groups())


def written(code: str) -> GeneratedSource:
    """Source that the author wrote, as the compilers take it: no line of it goes back to Python."""
    return GeneratedSource("the author's code", "cuda", "cuda", code, (0,) * len(code.splitlines()))
