"""unknown-specialisation: values chosen for a kernel that no parameter and no size of it takes.

They come from a `# tilelang: specialize(...)` comment, from pyproject.toml, from an editor or from `-D`. A
project may mean another kernel of the same name, so what it chooses is told only where a parameter is spelt
alike.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping

from tilelang.diagnostics.problem import Edit, Fix, Problem
from tilelang.diagnostics.rules.python import UNKNOWN_SPECIALISATION
from tilelang.frontend.environments.host_calls import all_arguments
from tilelang.frontend.environments.specialise import comment_names
from tilelang.frontend.environments.static_module import KernelSource, StaticModule
from tilelang.ir.tile_program import TileProgram


def unknown_values(
    module: StaticModule, kernel: KernelSource, choice: Mapping[str, str], program: TileProgram
) -> Iterator[Problem]:
    """`program`: the kernel under the specialisation that they make."""
    around = (*kernel.found.outer, kernel.found.node)
    known = {a.arg for node in around for a in all_arguments(node.args)}
    known |= {s.name for s in program.symbols}
    for name, span in comment_names(module, kernel):
        near = _near(name, known)
        if name not in known and (near or program.complete):
            fixes = (Fix(f"Change to `{near}`", (Edit(span, near),)),) if near else ()
            yield UNKNOWN_SPECIALISATION.at(
                span, fixes=fixes, name=name, where="here", kernel=kernel.name, hint=_hint(near, known)
            )
    for name in choice:
        near = _near(name, known - choice.keys())
        if name not in known and near:
            where = "by the project or the editor"
            yield UNKNOWN_SPECIALISATION.at(
                kernel.name_span, name=name, where=where, kernel=kernel.name, hint=_hint(near, known)
            )


def _near(name: str, known: set[str]) -> str | None:
    return next(iter(difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.75)), None)


def _hint(near: str | None, known: set[str]) -> str:
    return f"; did you mean `{near}`?" if near else f"; it has {', '.join(sorted(known)) or 'none'}"
