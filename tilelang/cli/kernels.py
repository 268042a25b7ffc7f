"""Which kernel of a file is meant."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path

from tilelang.cli.usage import UsageError
from tilelang.frontend.environments.specialise import chosen_specialisation, kernel_function, trace_static
from tilelang.frontend.environments.static_module import StaticModule


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


def check_choice(file: Path, text: str, kernel: str, choice: Mapping[str, str]) -> None:
    """Raises UsageError for a `-D` that names neither a parameter nor a size of the kernel, and for a size
    whose value is no integer.
    """
    module = StaticModule(str(file), text)
    source = module.kernel(kernel)
    function, _ = kernel_function(module, source)
    if not choice or function is None:
        return
    chosen = chosen_specialisation(module, source, choice)
    program = trace_static(module, source, specialisation=chosen)
    args = function.node.args
    parameters = [a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)]
    names = [*parameters, *(s.name for s in program.symbols)]
    values = dict(chosen.values)
    for name, written in choice.items():
        near = difflib.get_close_matches(name, names, n=1)
        if name not in names and (program.complete or near):
            known = f"did you mean {near[0]}?" if near else f"it has {', '.join(names) or 'none'}"
            raise UsageError(f"-D {name}: {kernel} has no parameter or size {name}; {known}")
        if name not in parameters and name in names and type(values.get(name)) is not int:
            raise UsageError(
                f"-D {name}: {name} is a size of {kernel}, so its value must be an integer, not {written}"
            )
