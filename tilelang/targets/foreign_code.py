"""What of a kernel's source its author wrote in the target's language: functions that T.call_extern calls,
text that T.import_source brings. A toolchain's errors about it are the author's to mend.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm import ir

from tilelang.ir import tile_ops
from tilelang.passes.walk import calls, walk
from tilelang.targets.c_printer import IMPORTED
from tilelang.targets.lowered import LoweredKernel

_EXTERNS = frozenset({"tirx.call_extern", "tirx.call_pure_extern"})
_UNDEFINED = re.compile(r"identifier \"(?P<a>\w+)\" is undefined|undeclared identifier '(?P<b>\w+)'")


@dataclass(frozen=True)
class ForeignCode:
    """imported: the lines of T.import_source. called: functions of T.call_extern -> Python line, 0 if
    unknown. whole: the whole text is the author's (T.CUDASourceCodeKernel), what stands before it aside.
    """

    imported: tuple[str, ...] = ()
    called: Mapping[str, int] = field(default_factory=dict)
    whole: bool = False

    def first_imported(self, lines: Sequence[str]) -> int | None:
        """Where in the generated `lines` the imported ones begin."""
        count = len(self.imported)
        places = range(len(lines) - count + 1) if count else ()
        return next((k for k in places if tuple(lines[k : k + count]) == self.imported), None)

    def explain(self, lines: Sequence[str], number: int, message: str) -> str | None:
        """What the author has to mend about a compiler's message at the generated line `number`, counted from
        1; None where the line is the compiler's own.
        """
        first = self.first_imported(lines)
        if first is not None and first < number <= first + len(self.imported):
            return f"line {number - first} of the text given to T.import_source: {message}"
        if self.whole:
            return f"the kernel's own source, line {number} of what is compiled: {message}"
        name = next((n for n in self.called if re.search(rf"\b{n}\s*\(", lines[number - 1])), None)
        if name is None:
            return None
        undefined = _UNDEFINED.search(message)
        if undefined and name in undefined.groups():
            return (
                f"T.call_extern calls {name}, which nothing declares: give its source, as a __device__ "
                f"function, with T.import_source, or correct the name"
            )
        return f"T.call_extern of {name} does not fit its declaration: {message}"


NO_FOREIGN_CODE = ForeignCode()


def foreign_code(lowered: LoweredKernel) -> ForeignCode:
    """What of the source of `lowered` the author wrote."""
    funcs = [part.func for part in lowered.parts or (lowered,)]
    texts = [str(f.attrs[IMPORTED]) for f in funcs if f.attrs and IMPORTED in f.attrs]
    called: dict[str, int] = {}
    for func in funcs:
        called |= extern_calls(func.body)
    whole = any(_is_source(call) for func in funcs for call in calls(func.body))
    return ForeignCode(tuple(texts[0].splitlines()) if texts else (), called, whole)


def extern_calls(body: Any) -> dict[str, int]:
    """The functions that T.call_extern calls, each with a Python line, 0 where none is known."""
    found = {_name(call): 0 for call in calls(body) if _is_extern(call)}
    if found:
        for stmt in walk(body):  # outer before inner: the line of the innermost remains
            line = int(stmt.span.line) if stmt.span is not None else 0
            found |= {_name(call): line for call in calls(stmt) if line and _is_extern(call)}
    return found


def _is_extern(call: Any) -> bool:
    return isinstance(call.op, ir.Op) and call.op.name in _EXTERNS


def _name(call: Any) -> str:
    return str(getattr(call.args[0], "value", call.args[0]))


def _is_source(call: Any) -> bool:
    return isinstance(call.op, ir.Op) and tile_ops.is_call(call, tile_ops.SOURCE_KERNEL)
