"""HIP C++ of the author's own, compiled for an AMD GPU by any clang that knows them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tilelang.arch.target import Target
from tilelang.facts.reports import GeneratedSource
from tilelang.targets.hip import toolchain

_ARCH = "gfx942"


def compile_hip(
    code: str,
    target_format: str = "hsaco",
    arch: str | None = None,
    options: str | Sequence[str] | None = None,
    path_target: str | None = None,
    verbose: bool = False,
) -> bytearray:
    """The code object of `code`, which declares what it uses: no headers of HIP's are included.

    arch: gfx942 if None. path_target: a file that receives the result too. verbose: accepted; the compiler
    says nothing when it succeeds. Raises ToolchainError in its words, ValueError for another format.
    """
    if target_format != "hsaco":
        raise ValueError(f"a code object (hsaco) is made of HIP, not {target_format!r}")
    more = options.split() if isinstance(options, str) else list(options or ())
    source = GeneratedSource("the author's code", "hip", "hip", code, (0,) * len(code.splitlines()))
    binary = toolchain.compile_source(source, Target("hip", arch or _ARCH), more)
    if path_target:
        Path(path_target).write_bytes(binary)
    return bytearray(binary)
