"""A kernel that its author wrote in CUDA C++ (T.CUDASourceCodeKernel): its source as it is, and its plan.

In:  a function whose launch is one call `tl.source_kernel(text, addresses)`.
Out: the text behind the includes and names it relies on, every line of it mapped to the Python statement.
Not: any look into what the text does.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from tvm import tirx as X

from tilelang.arch.target import Target
from tilelang.diagnostics.error import KernelError
from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.facts.reports import GeneratedSource
from tilelang.ir import tile_ops
from tilelang.ir.spans import place_of
from tilelang.passes.walk import walk
from tilelang.targets.c_printer import CLUSTER, IMPORTED
from tilelang.targets.launch_plan import launch_plan
from tilelang.targets.lowered import LoweredKernel

ENTRY = "tl.source_entry"  # attribute of the function: the name asked for
_GLOBAL = re.compile(
    r"""(?P<c>extern\s+"C"\s+)?__global__\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?void\s+"""
    r"(?:__launch_bounds__\s*\([^)]*\)\s*|__cluster_dims__\s*\([^)]*\)\s*)*(?P<name>\w+)\s*\("
)
# Names that kernels of this language take for granted, and what they mean here.
_KNOWN = {"half_t": "using half_t = half;", "bfloat16_t": "using bfloat16_t = __nv_bfloat16;"}
_INCLUDES = {"half": "cuda_fp16.h", "bfloat16": "cuda_bf16.h", "__nv_fp8": "cuda_fp8.h"}


def source_kernel(func: X.PrimFunc, target: Target) -> LoweredKernel | None:
    """The function as a kernel of its own source; None where it is no such function.

    Raises KernelError if the text does not say which of its functions is meant.
    """
    call = next((s.value for s in walk(func.body) if _is_source(s)), None)
    if call is None:
        return None
    text = str(call.args[0].value)
    entry, text = _entry(text, str(func.attrs[ENTRY]), call)
    if CLUSTER in func.attrs and "__cluster_dims__" not in text:
        dims = str(func.attrs[CLUSTER])
        text = text.replace("__global__ void", f"__global__ void __cluster_dims__({dims})")
    head = [f"#include <{file}>" for word, file in _INCLUDES.items() if word in text and file not in text]
    head += [line for name, line in _KNOWN.items() if re.search(rf"\b{name}\b", text) and line not in text]
    if IMPORTED in func.attrs:
        head += str(func.attrs[IMPORTED]).splitlines()
    lines = [*head, *([""] if head else []), *text.strip("\n").splitlines()]
    at = place_of(call.span).line
    plan = replace(launch_plan(func, "cuda"), entry=entry)
    numbers = tuple(0 if k < len(head) else at for k in range(len(lines)))
    source = GeneratedSource(plan.name, target.name, "cuda", "\n".join(lines) + "\n", numbers)
    return LoweredKernel(name=plan.name, target=target, func=func, plan=plan, source=source)


def _is_source(stmt: Any) -> bool:
    return isinstance(stmt, X.Evaluate) and tile_ops.is_call(stmt.value, tile_ops.SOURCE_KERNEL)


def _entry(text: str, wanted: str, call: Any) -> tuple[str, str]:
    """The function to launch, and the text in which it has a name that the driver finds."""
    found = list(_GLOBAL.finditer(text))
    chosen = next((m for m in found if m["name"] == wanted), found[0] if len(found) == 1 else None)
    if chosen is None:
        names = ", ".join(m["name"] for m in found) or "none that can be read"
        what = f"the source has no `__global__` function {wanted}; entry_name is one of: {names}"
        raise KernelError([BAD_ARGUMENTS.at(place_of(call.span), callee="T.CUDASourceCodeKernel", what=what)])
    in_block = re.search(r'extern\s+"C"\s*\{', text[: chosen.start()])
    if chosen["c"] or in_block:
        return chosen["name"], text
    return chosen["name"], f'{text[: chosen.start()]}extern "C" {text[chosen.start() :]}'
