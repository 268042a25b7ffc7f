"""T.print on the CPU: texts by `write`, numbers by `gcvt`: C functions without variable arguments.

`printf` takes its floats by a convention that TVM's calls do not follow.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.ir.tile_ops import seq
from tilelang.targets.cpu.memory import Memory
from tilelang.targets.cpu.nests import index

_SPEC = re.compile(r"%(?:%|d|lld|llu|f)")
_STANDARD_OUTPUT = 1
_LONGEST = 48  # characters of a number
_DIGITS = {"%f": 9}


def print_statements(call: Any, block: Sequence[Any], memory: Memory, span: Any) -> Any:
    """The writes of one line: `call` is `tl.print_value(format, numbers...)`, its coordinates come first."""
    text, *values = list(call.args)
    numbers = [*block, *(index(0) for _ in range(6 - len(block))), *values]
    space = memory.scratch("int8", (_LONGEST,))
    flat = memory.load(space, [index(0)])
    start = X.address_of(flat)
    statements: list[Any] = []
    literal = ""
    position = 0
    format_ = str(text.value)
    for match in _SPEC.finditer(format_):
        literal += format_[position : match.start()]
        position = match.end()
        if match.group() == "%%":
            literal += "%"
            continue
        statements += _text(literal, span)
        literal = ""
        digits = _DIGITS.get(match.group(), 17)
        value = numbers.pop(0)
        value = value if str(value.ty) == "float64" else X.Cast("float64", value)
        made = X.call_extern("handle", "gcvt", value, index(digits), start)
        length = X.call_extern("int64", "strlen", start)
        written = X.call_extern("int64", "write", index(_STANDARD_OUTPUT), start, length)
        statements += [X.Evaluate(made, span), X.Evaluate(written, span)]
    statements += _text(literal + format_[position:], span)
    return seq(statements)


def _text(literal: str, span: Any) -> list[Any]:
    if not literal:
        return []
    count = X.const(len(literal.encode()), "int64")
    call = X.call_extern("int64", "write", index(_STANDARD_OUTPUT), ir.StringImm(literal), count)
    return [X.Evaluate(call, span)]
