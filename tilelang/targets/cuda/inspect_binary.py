"""What is inside a compiled CUDA kernel: registers and stack from the cubin, PTX, machine code as text."""

from __future__ import annotations

import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tilelang.arch.target import parse_target
from tilelang.facts.reports import GeneratedSource
from tilelang.runtime.artifact import Artifact
from tilelang.targets.cuda.toolchain import code_name, nvcc, nvrtc, ptx_with_nvcc
from tilelang.targets.toolchain_error import ToolchainError

_REGISTER_FILE = 65536  # 32-bit registers of a multiprocessor, all architectures since sm_70
_REGISTER_UNIT = 256  # they are given to a warp in units of this many
_WARP = 32
_MOST_THREADS = 1024

# Entries of .nv.info: format byte, attribute, size, and for these a symbol index and a value.
_SIZED = 0x04
_FRAME_SIZE = 0x11
_REGISTER_COUNT = 0x2F


@dataclass(frozen=True)
class ResourceUsage:
    """What one thread of a kernel takes, and how many of them a block can have with it."""

    registers: int
    local_bytes: int  # stack frame: spilled registers and arrays that are indexed at run time
    max_threads: int


def resource_usage(artifact: Artifact) -> ResourceUsage:
    """Read from the cubin; no tool and no device is needed. Raises ValueError where there is none."""
    if artifact.binary_format != "cubin":
        raise ValueError(f"{artifact.name} for {artifact.target} has no cubin to read registers from")
    sections = dict(_sections(artifact.binary))
    text = sections.get(f".text.{artifact.plan.entry}")
    if text is None:
        raise ValueError(f"the cubin of {artifact.name} has no code for {artifact.plan.entry}")
    info = sections[".nv.info"].data if ".nv.info" in sections else b""
    stack = max(_values(info, _FRAME_SIZE), default=0)
    # sm_90 and newer list the registers; before, they are the high byte of the code section's sh_info.
    registers = max(_values(info, _REGISTER_COUNT), default=0) or text.info >> 24
    per_warp = -(-registers * _WARP // _REGISTER_UNIT) * _REGISTER_UNIT
    most = min(_MOST_THREADS, _REGISTER_FILE // per_warp * _WARP) if per_warp else _MOST_THREADS
    return ResourceUsage(registers, stack, most)


def ptx(artifact: Artifact) -> str:
    """The PTX of a kernel, compiled again from its source.

    Raises ValueError for another target than CUDA, ToolchainError without NVRTC and nvcc.
    """
    if artifact.plan.kind != "cuda":
        raise ValueError(f"{artifact.name} was compiled for {artifact.target}, which has no PTX")
    arch = code_name(parse_target(artifact.target)).replace("sm_", "compute_")
    source = GeneratedSource(
        kernel=artifact.name,
        target=artifact.target,
        language=artifact.language,
        text=artifact.source,
        line_map=artifact.line_map,
    )
    library = nvrtc()
    if library is not None:
        return library.ptx(source, arch)
    compiler = nvcc()
    if compiler is None:
        raise ToolchainError("no CUDA compiler found: PTX needs NVRTC or nvcc")
    return ptx_with_nvcc(compiler, source, arch)


def sass(artifact: Artifact) -> str:
    """The machine code of a kernel as text.

    Raises ValueError for a kernel without a cubin, ToolchainError without the CUDA toolkit's disassembler.
    """
    if artifact.binary_format != "cubin":
        raise ValueError(f"{artifact.name} for {artifact.target} has no cubin to disassemble")
    return disassembly(artifact.binary)


def disassembly(binary: bytes) -> str:
    """The machine code of a cubin as text. Raises ToolchainError without the toolkit's disassembler."""
    beside = Path(nvcc() or "").parent
    for tool, arguments in (("cuobjdump", ["-sass"]), ("nvdisasm", [])):
        found = shutil.which(tool) or shutil.which(tool, path=str(beside))
        if found is None:
            continue
        with tempfile.TemporaryDirectory(prefix="tilelang-sass-") as folder:
            cubin = Path(folder, "kernel.cubin")
            cubin.write_bytes(binary)
            done = subprocess.run([found, *arguments, str(cubin)], capture_output=True, text=True)
        if done.returncode:
            raise ToolchainError(f"{tool} failed: {done.stderr.strip()}")
        return done.stdout
    raise ToolchainError("machine code as text needs cuobjdump or nvdisasm of the CUDA toolkit on the PATH")


@dataclass(frozen=True)
class _Section:
    info: int
    data: bytes


def _sections(binary: bytes) -> Iterator[tuple[str, _Section]]:
    """Name and content of every section of a 64-bit little-endian ELF file, as cubins are."""
    if binary[:6] != b"\x7fELF\x02\x01":
        raise ValueError("the binary is not a cubin")
    (start,) = struct.unpack_from("<Q", binary, 0x28)
    size, count, names_at = struct.unpack_from("<HHH", binary, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", binary, start + size * i) for i in range(count)]
    names = binary[headers[names_at][4] :]
    for name, kind, _, _, offset, length, _, info, _, _ in headers:
        text = names[name : names.index(b"\0", name)].decode()
        no_bits = 8  # SHT_NOBITS: occupies nothing in the file
        yield text, _Section(info, b"" if kind == no_bits else binary[offset : offset + length])


def _values(data: bytes, wanted: int) -> Iterator[int]:
    """The values that .nv.info lists for one attribute, one per function of the cubin."""
    at = 0
    while at + 4 <= len(data):
        form, attribute, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if form != _SIZED:
            continue
        if attribute == wanted and size >= 8:
            yield struct.unpack_from("<I", data, at + 4)[0]
        at += size
