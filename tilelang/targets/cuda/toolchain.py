"""CUDA C++ to a cubin: NVRTC in this process where its wheel or a toolkit is installed, else nvcc.

NVRTC is called through ctypes: it compiles in memory, needs no GPU, and takes the headers of the CUDA wheels
(`nvidia-cuda-runtime`, `nvidia-cuda-crt`, `nvidia-cuda-cccl`) or of a toolkit.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilelang.arch.target import Target
from tilelang.facts.reports import GeneratedSource
from tilelang.runtime.artifact import Artifact
from tilelang.targets.cuda.standard_headers import standard_headers
from tilelang.targets.foreign_code import NO_FOREIGN_CODE, ForeignCode, foreign_code
from tilelang.targets.lowered import LoweredKernel
from tilelang.targets.toolchain_error import ToolchainError

# Instructions such as wgmma exist only in the architecture-specific variant of these.
_SPECIFIC = frozenset({90, 100, 103, 110, 120, 121})

# Flags of nvcc that NVRTC lacks: it always optimises, has no host compiler that could warn,
# and takes functions that are constexpr on the device by itself.
_ONLY_NVCC = re.compile(r"-O[0-3]|-W(no-)?[a-z][a-z-]*|--expt-(relaxed-constexpr|extended-lambda)")


_FOR_PTXAS = ("--ptxas-options", "-Xptxas")


def _of_nvrtc(options: Sequence[str]) -> list[str]:
    """nvcc's flags as NVRTC takes them: it gives ptxas what follows as one option, commas and all."""
    found: list[str] = []
    given = iter(options)
    for option in given:
        name, equals, value = option.partition("=")
        if name in _FOR_PTXAS:
            parts = (value if equals else next(given, "")).split(",")
            found += [f"--ptxas-options={part}" for part in parts if part]
        elif not _ONLY_NVCC.fullmatch(option):
            found.append(option)
    return found


@dataclass(frozen=True)
class Compiled:
    """A cubin, and what the compiler said on the way."""

    binary: bytes
    log: str
    compiler: str  # "nvrtc 13.0" or "nvcc"


def build(lowered: LoweredKernel, flags: Sequence[str] = ()) -> Artifact:
    """Compile for the target's architecture, with further `flags`.

    Raises ToolchainError that names the Python lines.
    """
    compiled = compile_source(lowered.source, lowered.target, flags, foreign_code(lowered))
    return lowered.artifact(compiled.binary, "cubin")


# Functions that authors who write for nvcc call by the name of the host's compiler; NVRTC has them without.
_HOSTS_OWN = ("memcpy", "memset")
_THEIR_FILES = ("-I", "--include-path", "-include", "--pre-include", "--include")


def compile_source(
    source: GeneratedSource,
    target: Target,
    options: Sequence[str] = (),
    foreign: ForeignCode = NO_FOREIGN_CODE,
) -> Compiled:
    """The cubin of `source`, by NVRTC if it is there, else by nvcc, which is also asked about code of the
    author's that NVRTC refuses: it may need what only nvcc has.

    foreign: what of the source the author wrote.
    """
    library, compiler = nvrtc(), nvcc()
    if library is not None:
        try:
            return library.compile(source, code_name(target), options, foreign)
        except ToolchainError:
            theirs = foreign.imported or foreign.whole or any(o.startswith(_THEIR_FILES) for o in options)
            if compiler is None or not theirs:
                raise
            try:
                return compile_with_nvcc(compiler, source, code_name(target), options, foreign)
            except ToolchainError:
                pass  # what NVRTC says, which both refuse, is told
            raise
    if compiler is not None:
        return compile_with_nvcc(compiler, source, code_name(target), options, foreign)
    raise ToolchainError(
        "no CUDA compiler found: install the NVRTC wheels with pip install 'tilelang-lsp[cuda]', "
        "or put nvcc on the PATH"
    )


def code_name(target: Target) -> str:
    """The real architecture to compile for: sm_90 becomes sm_90a, where wgmma and TMA multicast live."""
    return f"sm_{target.sm}a" if target.sm in _SPECIFIC else f"sm_{target.sm}"


def describe() -> str:
    """Name and version of the compiler that `compile_source` will use; part of the key of the disk cache."""
    library = nvrtc()
    if library is not None:
        return f"nvrtc {library.version[0]}.{library.version[1]}"
    return f"nvcc {nvcc()}" if nvcc() else "none"


class Nvrtc:
    """NVRTC behind ctypes."""

    def __init__(self, library: ctypes.CDLL, include: tuple[str, ...]) -> None:
        self._library = library
        self._include = include
        major, minor = ctypes.c_int(), ctypes.c_int()
        library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        self.version = (major.value, minor.value)

    def compile(
        self,
        source: GeneratedSource,
        arch: str,
        options: Sequence[str] = (),
        foreign: ForeignCode = NO_FOREIGN_CODE,
    ) -> Compiled:
        """The cubin for `arch`. Raises ToolchainError with the compiler's words at the Python lines."""
        binary, log = self._run(source, arch, options, "CUBIN", foreign)
        return Compiled(binary, log, f"nvrtc {self.version[0]}.{self.version[1]}")

    def ptx(self, source: GeneratedSource, arch: str, options: Sequence[str] = ()) -> str:
        """The PTX for `arch` (`compute_90a`). Raises ToolchainError as `compile` does."""
        return self._run(source, arch, options, "PTX")[0].rstrip(b"\0").decode()

    def _run(
        self,
        source: GeneratedSource,
        arch: str,
        options: Sequence[str],
        product: str,
        foreign: ForeignCode = NO_FOREIGN_CODE,
    ) -> tuple[bytes, str]:
        """The product of a compilation (`CUBIN` or `PTX`), and the compiler's log."""
        own = _of_nvrtc(options)
        flags = [f"--gpu-architecture={arch}", "--std=c++17", "--device-as-default-execution-space", *own]
        flags += [f"--include-path={folder}" for folder in self._include]
        flags += [f"--define-macro=__builtin_{name}={name}" for name in _HOSTS_OWN]
        program = ctypes.c_void_p()
        name = f"{source.kernel}.cu".encode()
        headers = standard_headers()
        texts, names = (
            (ctypes.c_char_p * len(headers))(*[t.encode() for t in part])
            for part in (headers.values(), headers)
        )
        self._check(
            self._library.nvrtcCreateProgram(
                ctypes.byref(program), source.text.encode(), name, len(headers), texts, names
            )
        )
        try:
            array = (ctypes.c_char_p * len(flags))(*[f.encode() for f in flags])
            status = self._library.nvrtcCompileProgram(program, len(flags), array)
            log = self._text(program, "ProgramLog")
            if status:
                raise ToolchainError(explain(source, log, f"NVRTC for {arch}", foreign))
            return self._bytes(program, product), log
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def _text(self, program: ctypes.c_void_p, what: str) -> str:
        return self._bytes(program, what).rstrip(b"\0").decode(errors="replace").strip()

    def _bytes(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._check(getattr(self._library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
        buffer = ctypes.create_string_buffer(size.value)
        self._check(getattr(self._library, f"nvrtcGet{what}")(program, buffer))
        return buffer.raw

    def _check(self, status: int) -> None:
        if status:
            self._library.nvrtcGetErrorString.restype = ctypes.c_char_p
            raise ToolchainError(f"NVRTC failed: {self._library.nvrtcGetErrorString(status).decode()}")


@functools.cache
def nvrtc() -> Nvrtc | None:
    """NVRTC of the wheels or of a toolkit; None if there is none, or no headers for it.

    One newer than the driver by a major version is passed over: the driver could not load its binaries.
    """
    include = include_folders()
    if not include:
        return None
    newest = driver_version()
    for path in _nvrtc_libraries():
        try:
            found = Nvrtc(ctypes.CDLL(path), include)
        except OSError:
            continue
        if newest is None or found.version[0] <= newest[0]:
            return found
    return None


@functools.cache
def driver_version() -> tuple[int, int] | None:
    """The newest CUDA version that the driver of this machine knows; None where there is no driver."""
    try:
        library = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return None
    number = ctypes.c_int()
    if library.cuDriverGetVersion(ctypes.byref(number)):
        return None
    return number.value // 1000, number.value % 1000 // 10


@functools.cache
def include_folders() -> tuple[str, ...]:
    """Folders with cuda_fp16.h and the C++ standard headers for device code; empty if there are none."""
    roots = [*_wheel_roots(), *_toolkits()]
    places = [p for root in roots for p in (root / "include", root / "cuda_runtime" / "include")]
    runtime = next((p for p in places if (p / "cuda_fp16.h").is_file()), None)
    if runtime is None:
        return ()
    # The standard library comes with the toolkit or in a wheel of its own, perhaps of another root.
    nested = [p for root in roots for p in (root / "include" / "cccl", root / "cuda_cccl" / "include")]
    standard = next((p for p in nested if (p / "nv" / "target").is_file()), None)
    return (str(runtime),) if standard is None else (str(runtime), str(standard))


@functools.cache
def nvcc() -> str | None:
    """The path of nvcc, if there is one."""
    for root in _toolkits():
        if (root / "bin" / "nvcc").is_file():
            return str(root / "bin" / "nvcc")
    return shutil.which("nvcc")


def _nvrtc_libraries() -> list[str]:
    pattern = "nvrtc64_*.dll" if sys.platform == "win32" else "libnvrtc.so.1*"
    found: list[str] = []
    for root in [*_wheel_roots(), *_toolkits()]:
        for folder in (root / "lib", root / "lib64", root / "bin", root / "cuda_nvrtc" / "lib"):
            found += [str(p) for p in sorted(folder.glob(pattern), reverse=True)]
    return [*found, "libnvrtc.so.13", "libnvrtc.so.12"]


def _wheel_roots() -> list[Path]:
    """Folders `nvidia/cu13` (CUDA 13 wheels) and `nvidia` (CUDA 12 wheels) of this environment."""
    spec = importlib.util.find_spec("nvidia")
    places = [Path(p) for p in spec.submodule_search_locations or ()] if spec else []
    return [*(p / "cu13" for p in places if (p / "cu13").is_dir()), *places]


def _toolkits() -> list[Path]:
    named = [os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH")]
    return [Path(p) for p in [*named, "/usr/local/cuda"] if p and Path(p).is_dir()]


def compile_with_nvcc(
    compiler: str,
    source: GeneratedSource,
    arch: str,
    options: Sequence[str] = (),
    foreign: ForeignCode = NO_FOREIGN_CODE,
) -> Compiled:
    """The cubin of `source` by nvcc. Raises ToolchainError with the compiler's words at the Python lines."""
    number = arch.removeprefix("sm_")
    with tempfile.TemporaryDirectory(prefix="tilelang-nvcc-") as folder:
        text, cubin = Path(folder, f"{source.kernel}.cu"), Path(folder, "kernel.cubin")
        text.write_text(source.text, encoding="utf-8")
        command: list[Any] = [compiler, "-cubin", "-std=c++17", "-gencode"]
        command += [f"arch=compute_{number},code=sm_{number}", *options, "-o", cubin, text]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise ToolchainError(explain(source, done.stderr, f"nvcc for {arch}", foreign))
        return Compiled(cubin.read_bytes(), done.stderr.strip(), "nvcc")


def ptx_with_nvcc(compiler: str, source: GeneratedSource, arch: str) -> str:
    """The PTX of `source` for `arch` (`compute_90a`) by nvcc. Raises ToolchainError as above."""
    with tempfile.TemporaryDirectory(prefix="tilelang-nvcc-") as folder:
        text, product = Path(folder, f"{source.kernel}.cu"), Path(folder, "kernel.ptx")
        text.write_text(source.text, encoding="utf-8")
        command = [compiler, "-ptx", "-std=c++17", f"-arch={arch}", "-o", product, text]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise ToolchainError(explain(source, done.stderr, f"nvcc for {arch}"))
        return product.read_text(encoding="utf-8")


# "kernel.cu(12): error: ..." as both compilers write it.
_MESSAGE = re.compile(r"^(?P<file>[^\s(]*)\((?P<line>\d+)\): (?P<kind>.*?error): (?P<text>.*)$", re.MULTILINE)
_NO_SUCH_FILE = re.compile(r"^.*fatal error: .*: No such file or directory$", re.MULTILINE)
_MOST_MESSAGES = 5


def explain(source: GeneratedSource, log: str, what: str, foreign: ForeignCode = NO_FOREIGN_CODE) -> str:
    """The compiler's errors, each with the Python line it goes back to and the generated line.

    Those in what the author wrote in CUDA are said to be there; only others are the compiler's fault.
    """
    lines = source.text.splitlines()
    parts, own = [], False
    for match in list(_MESSAGE.finditer(log))[:_MOST_MESSAGES]:
        number = int(match["line"])
        inside = match["file"].endswith(f"{source.kernel}.cu") and 0 < number <= len(lines)
        python = source.line_map[number - 1] if inside and number <= len(source.line_map) else 0
        text = f"\n    {lines[number - 1].strip()}" if inside else ""
        theirs = foreign.explain(lines, number, match["text"]) if inside else None
        # A header that includes what is not there is not ours: our own text includes what comes with CUDA.
        own |= theirs is None and (inside or "cannot open source file" not in match["text"])
        place = "generated line" if inside else f"{match['file']}, line"
        what_fails = theirs or f"{place} {number}: {match['text']}"
        where = f"Python line {python}{': ' if theirs else ', '}" if python else ""
        parts.append(f"  {where}{what_fails}{text}")
    if parts and not own:
        return "\n".join([f"{what} refused foreign code of {source.kernel}:", *parts])
    missing = _NO_SUCH_FILE.search(log) if not parts else None  # said by the host's compiler, through nvcc
    if missing:
        return f"{what} refused foreign code of {source.kernel}:\n  {missing[0].strip()}"
    generated = any(source.line_map)  # else it is a text of the caller's
    head = f"{what} refused {source.kernel}."
    if generated:
        head = f"{what} refused the source generated for {source.kernel}. "
        head += "This is a bug of the compiler, not of the kernel."
    return "\n".join([head, *parts]) if parts else f"{head}\n{log.strip()}"
