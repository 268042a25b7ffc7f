"""Generated source of a kernel from its file's text alone: nothing is imported, no toolchain is needed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tilelang.arch.target import parse_target
from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.layout import TILE_WITHOUT_SIZE
from tilelang.facts.reports import GeneratedSource
from tilelang.frontend.environments.specialise import chosen_specialisation, trace_static, with_call_sizes
from tilelang.frontend.environments.static_module import StaticModule
from tilelang.ir.prove import free_vars
from tilelang.ir.tile_program import TileProgram
from tilelang.ir.values import show
from tilelang.jit.compiling import prim_func_of, raise_errors
from tilelang.targets import driver

_COMMENT = {"tirx": "#"}  # of a language; all others are C's


def generate_source(
    path: str, text: str, kernel: str, target: str, choice: Mapping[str, str] | None = None
) -> GeneratedSource:
    """The source generated for a kernel of a file, by its qualified or plain name. The first line names what
    it was specialised for.

    choice: values of parameters and sizes as written, over what the file itself says. `T.const` sizes come
    from a call in the file whose tensors' shapes are known; sizes without a value stay symbols. Raises
    KernelError with every problem, ValueError for a parameter without a value or an unknown target,
    LookupError for a kernel that the file has not.
    """
    return generate_from_module(StaticModule(path, text), kernel, target, choice)


def generate_from_module(
    module: StaticModule, kernel: str, target: str, choice: Mapping[str, str] | None = None
) -> GeneratedSource:
    """`generate_source` for a file that is read already."""
    chosen = parse_target(target)
    path, text = module.path, module.text
    raise_errors(module.problems, text)
    try:
        source = module.kernel(kernel)
    except KeyError:
        names = ", ".join(k.qualified_name for k in module.kernels) or "none"
        raise LookupError(f"{path} has no kernel called {kernel}; it has {names}") from None
    under = chosen_specialisation(module, source, choice or {})
    program = trace_static(module, source, specialisation=under)
    sized = with_call_sizes(under, program)
    if sized != under:
        program = trace_static(module, source, specialisation=sized)
    if chosen.kind != "cpu":
        raise_errors(_tiles_without_size(program), text)
    lowered = driver.lower(prim_func_of(program, chosen, text), chosen)
    return headed(lowered.source, program.specialisation)


def _tiles_without_size(program: TileProgram) -> list[Problem]:
    """Tiles whose extents contain a `T.const` that nothing gives a value. A call would; a text has none."""
    given = dict(program.specialisation)
    constants = {s.var: s.name for s in program.symbols if s.kind == "const" and s.name not in given}
    problems = []
    for buffer in program.buffers:
        if buffer.role is not None or buffer.scope == "global" or buffer.view_of is not None:
            continue
        for dim, size in enumerate(buffer.shape):
            names = [constants[v] for v in free_vars(size) if v in constants]
            if names:
                problems.append(
                    TILE_WITHOUT_SIZE.at(
                        buffer.span,
                        dim=dim,
                        buffer=buffer.name,
                        size=show(size),
                        names=" and ".join(names),
                        example=names[0],
                    )
                )
    return problems


def headed(source: GeneratedSource, specialisation: tuple[tuple[str, str], ...]) -> GeneratedSource:
    """`source` with a first line that names kernel, target and specialisation."""
    values = ", ".join(f"{name}={value}" for name, value in specialisation)
    line = f"{_COMMENT.get(source.language, '//')} {source.kernel} for {source.target}"
    if values:
        line += f", with {values}"
    return dataclasses.replace(source, text=f"{line}\n{source.text}", line_map=(0, *source.line_map))
