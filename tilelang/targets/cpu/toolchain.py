"""LLVM in process: the lowered function becomes an object file, or code of this process."""

from __future__ import annotations

import ctypes
import functools
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import tvm
from tvm import tirx as X
from tvm.tirx.op import register_intrin_lowering

from tilelang.runtime import cpu as loader
from tilelang.runtime.artifact import Artifact
from tilelang.targets.cpu.comparisons import compare_exactly
from tilelang.targets.cpu.long_chains import cut_chains
from tilelang.targets.cpu.opaque_conversions import hide_conversions
from tilelang.targets.cpu.wrapping_conversions import hide_wrapping
from tilelang.targets.cpu.wrapping_unsigned import wrap_unsigned
from tilelang.targets.foreign_code import foreign_code
from tilelang.targets.lowered import LoweredKernel
from tilelang.targets.toolchain_error import ToolchainError

# LLVM's -O3 unrolls and copies loops until an attention kernel takes four times as long to compile, and runs
# none of the examples faster (docs/performance.md).
_EFFORT = 2


def build(lowered: LoweredKernel, flags: Sequence[str] = ()) -> Artifact:
    """Compile for the processor of this machine, or for the one that the target names (an LLVM `mcpu`).

    flags: `-O0` to `-O3` say how hard LLVM tries (-O2 if not given); others are for GPU compilers.
    """
    _refuse_unknown_functions(lowered)
    target = llvm_target(lowered.target.arch, _effort(flags))
    module = tvm.get_global_func("target.build.llvm")(_packed(lowered, target), target)
    binary, form, loaded = b"", "", None
    if loader.has_object_loader():
        binary, form = _object(module), "o"
    elif loader.linker() is not None:
        binary, form = loader.link(_object(module)), "so"
    else:  # runs, but can only be saved where a loader is found
        loaded = {part.plan.entry: module[part.plan.entry] for part in lowered.parts or (lowered,)}
        binary, form = _object(module), "o"
    return replace(lowered.artifact(binary, form), target=f"cpu:{target.attrs['mcpu']}", loaded=loaded)


def _refuse_unknown_functions(lowered: LoweredKernel) -> None:
    """Raises ToolchainError for T.call_extern of a function that no library of this process has."""
    process = _process()
    for name, line in foreign_code(lowered).called.items():
        if process is None or hasattr(process, name):
            continue
        where = f"line {line}: " if line else ""
        raise ToolchainError(
            f"{lowered.name}, {where}T.call_extern calls {name}, which no library of this process has. "
            "On the CPU it can call functions of C such as expf; T.import_source is text for the compilers "
            "of GPUs: write the operation with T.*, or compile for target='cuda'"
        )


@functools.cache
def _process() -> ctypes.CDLL | None:
    """The functions of this process, the C library's among them; None where they cannot be asked for."""
    return None if sys.platform == "win32" else ctypes.CDLL(None)


def _c_fmod(call: Any) -> Any:
    """The C library's function: TVM has no rule of its own for LLVM."""
    dtype = str(call.ty)
    if dtype == "float64":
        return X.call_pure_extern(dtype, "fmod", *call.args)
    wide = [X.Cast("float32", a) for a in call.args]
    return X.Cast(dtype, X.call_pure_extern("float32", "fmodf", *wide))


register_intrin_lowering("tirx.fmod", target="llvm", f=_c_fmod)


def _for_llvm(func: X.PrimFunc) -> X.PrimFunc:
    """`func` without what TVM's emission gets wrong."""
    return cut_chains(wrap_unsigned(hide_wrapping(compare_exactly(hide_conversions(func)))))


def _effort(flags: Sequence[str]) -> int:
    """The optimisation level among a compiler's flags, the last one given."""
    levels = [int(f[2]) for f in flags if f in ("-O0", "-O1", "-O2", "-O3")]
    return levels[-1] if levels else _EFFORT


@functools.cache
def llvm_target(arch: str, effort: int = _EFFORT) -> Any:
    """TVM's target for a processor name of LLVM, `native` for this machine's; `effort` is LLVM's -O level."""
    if arch == "native":
        arch = str(tvm.get_global_func("target.llvm_get_system_cpu")())
    return tvm.target.Target({"kind": "llvm", "mcpu": arch, "opt-level": effort})


def vector_bytes(arch: str) -> int:
    """Width of the vector registers that LLVM uses on this processor."""
    return int(tvm.get_global_func("target.llvm_get_vector_width")(llvm_target(arch))) // 8


def describe(arch: str) -> str:
    """Compiler, processor and loader that `build` uses: part of the key of the disk cache."""
    version = int(tvm.get_global_func("target.llvm_version_major")())
    form = "o" if loader.has_object_loader() else "so" if loader.linker() else "process"
    return f"llvm {version} {llvm_target(arch).attrs['mcpu']} {form}"


def _packed(lowered: LoweredKernel, target: Any) -> tvm.IRModule:
    """The function behind tvm-ffi's calling convention.

    Nothing simplifies it before LLVM: TVM's StmtSimplify takes floats for reals, `(x + c) - c` becomes `x`.
    """
    t = X.transform
    parts = lowered.parts or (lowered,)
    module = tvm.IRModule({part.plan.entry: _for_llvm(part.func) for part in parts})
    for step in (
        t.AnnotateEntryFunc(),
        t.BindTarget(target.with_host(target)),
        t.SplitHostDevice(),
        t.MakePackedAPI(),
        t.LowerTVMBuiltin(),
        t.LowerIntrin(),
    ):
        module = step(module)
    return module


def _object(module: Any) -> bytes:
    with tempfile.TemporaryDirectory(prefix="tilelang-llvm-") as folder:
        path = Path(folder, "kernel.o")
        module.write_to_file(str(path))
        return path.read_bytes()
