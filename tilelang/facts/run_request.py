"""What the run process is told about a kernel: one plain record, written by editor and command line alike.

The run process is a self-contained script that imports nothing of ours, so this is JSON and no class.
"""

from __future__ import annotations

import re
from typing import Any

from tilelang.facts.kernel_facts import KernelFacts

_REFERENCE = re.compile(r"#\s*tilelang:\s*reference[ \t]+(.+?)\s*$", re.MULTILINE)


def run_request(path: str, text: str, facts: KernelFacts, kernel_text: str) -> dict[str, Any]:
    """The request for one run. `text` is the whole file, `kernel_text` from the comments above the kernel
    to its end.
    """
    reference = _REFERENCE.search(kernel_text)
    tensors = [
        {"name": b.name, "shape": list(b.shape), "dtype": b.dtype, "role": b.role}
        for b in facts.buffers
        if b.role is not None
    ]
    return {
        "path": path,
        "text": text,
        "kernel": facts.qualified_name,
        "style": facts.style,
        "line": facts.name_span.line,
        "tensors": tensors,
        "specialisation": dict(facts.specialisation),
        "missing": list(facts.missing),
        "n_gemms": sum(op.op in ("gemm", "gemm_sp") for op in facts.ops),
        "reference": reference.group(1) if reference else None,
    }


def kernel_text(text: str, facts: KernelFacts) -> str:
    """The kernel's lines with the comments directly above it, where `# tilelang:` comments stand."""
    lines = text.split("\n")
    first = facts.span.line - 1
    while first > 0 and lines[first - 1].lstrip().startswith("#"):
        first -= 1
    return "\n".join(lines[first : facts.span.end_line])
