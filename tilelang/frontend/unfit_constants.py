"""constant-range where constants meet the dtype of what they are stored in, which converts them at once."""

from __future__ import annotations

from typing import Any

from tilelang.diagnostics.rules.dtype import CONSTANT_FRACTION, CONSTANT_FRACTION_FILL
from tilelang.diagnostics.span import Span
from tilelang.frontend.run import Run
from tilelang.ir.values import Buffer
from tilelang.ops.constants import unfit_constant
from tilelang.ops.operands import declared


def note_unfit(run: Run, value: Any, buffer: Buffer, span: Span, *, fills: bool = False) -> None:
    """Report a constant at `span` that `buffer` cannot hold; nothing for other values. `fills`: T.fill."""
    found = unfit_constant(value, buffer)
    if found is not None:
        rule, fields = found
        rule = CONSTANT_FRACTION_FILL if fills and rule is CONSTANT_FRACTION else rule
        run.report(rule, span, related=declared(buffer), **fields)
