"""The code of a CPU kernel as C, for reading: what `target="c"` shows. What runs is LLVM's code of the same.

In:  a lowered kernel.
Out: C11 text of its function, one statement per element instead of vectors; None where C has no words for it.
Not: packed arguments.

TVM's printer writes seven digits of a constant, which would change what the code computes: constants pass it
as calls of functions that are not there, and are written in their place, exactly.
"""

from __future__ import annotations

import math
import re
from typing import Any

import tvm
from tvm import tirx as X

from tilelang.diagnostics.error import KernelError
from tilelang.passes.split_vectors import split_vectors
from tilelang.targets.emit import literals
from tilelang.targets.lowered import LoweredKernel

from tvm_ffi import structural_map  # isort: skip

_DEVICE_FUNCTION = 2  # TVM's calling convention of functions that take their arguments as they are
_INCLUDES = "#include <math.h>\n#include <stdbool.h>\n#include <stdint.h>\n"
_HALF = "typedef _Float16 half;\n"


def c_source(lowered: LoweredKernel) -> str | None:
    """The functions of all launches; None if TVM's printer refuses a type or an operation."""
    target = tvm.target.Target("c")
    try:
        parts = [_printed(part, target) for part in lowered.parts or (lowered,)]
    except (KernelError, RuntimeError, ValueError):  # tvm.error.InternalError is a RuntimeError
        return None
    text = "\n".join(parts)
    types = _HALF if re.search(r"\bhalf\b", text) else ""
    return f"{_INCLUDES}{types}\n{text}"


def _printed(part: LoweredKernel, target: tvm.target.Target) -> str:
    constants: list[str] = []

    def hidden(node: Any) -> Any:
        constants.append(_constant(float(node.value), str(node.ty)))
        return X.call_pure_extern(node.ty, f"constant_{len(constants) - 1}_")

    func = split_vectors(part.func)
    func = func.with_body(structural_map(func.body, (X.FloatImm, hidden)))
    func = func.with_attr("calling_conv", _DEVICE_FUNCTION)
    module = tvm.IRModule({part.plan.entry: func})
    transform = X.transform
    for step in (
        transform.ConvertSSA(),  # loops that stand twice, guarded and not, share their variables
        transform.BindTarget(target.with_host(target)),
        transform.LowerTVMBuiltin(),
        transform.LowerIntrin(),
    ):
        module = step(module)
    text = tvm.get_global_func("target.build.c")(module, target).inspect_source()
    # Before the definition stand TVM's headers and a declaration; neither is needed to read it.
    start = text.index("TVM_DLL void", text.index("TVM_DLL void") + 1)
    text = text[start:].replace("TVM_DLL ", "", 1).rstrip() + "\n"
    return re.sub(r"\bconstant_(\d+)_\(\)", lambda m: constants[int(m[1])], text)


def _constant(value: float, dtype: str) -> str:
    """A number of C that has exactly this value. Raises ValueError for a dtype that C has no type for."""
    if dtype not in ("float64", "float32", "float16"):
        raise ValueError(f"C has no {dtype}")
    if math.isnan(value):
        digits = "NAN"
    elif math.isinf(value):
        digits = "-INFINITY" if value < 0 else "INFINITY"
    else:
        digits = literals.decimal(value, dtype) + ("" if dtype == "float64" else "f")
    text = f"(half){digits}" if dtype == "float16" else digits
    return f"({text})" if text.startswith(("-", "(")) else text
