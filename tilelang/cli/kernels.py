"""Which kernel of a file is meant."""

from __future__ import annotations

import difflib
from pathlib import Path

from tilelang.cli.usage import UsageError
from tilelang.frontend.static_module import StaticModule


def the_kernel(file: Path, text: str, name: str | None) -> str:
    """The qualified name of the kernel called `name`, or of the only one. Raises UsageError that lists
    them.
    """
    kernels = [(k.qualified_name, k.name) for k in StaticModule(str(file), text).kernels]
    if not kernels:
        raise UsageError(f"{file} has no kernel: no function decorated with @tilelang.jit or @T.prim_func")
    names = [qualified for qualified, _ in kernels]
    if name is None and len(names) == 1:
        return names[0]
    if name is None:
        raise UsageError(
            f"{file} has {len(names)} kernels; write {file}::KERNEL with one of {', '.join(names)}"
        )
    if name in names:
        return name
    short = [qualified for qualified, last in kernels if last == name or qualified.startswith(f"{name}.")]
    if len(short) == 1:
        return short[0]
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(names)}"
    raise UsageError(f"{file} has no kernel called {name}; {hint}")
