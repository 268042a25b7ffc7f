"""T.__fns: the n-th set bit of a mask, as a loop over its bits; GPUs have no faster way either."""

from __future__ import annotations

import ast
from typing import Any

from tvm import tirx as X

from tilelang.frontend.operators import binary, cast, compare, conjunction, disjunction
from tilelang.frontend.run import Run
from tilelang.frontend.tensors import new_buffer
from tilelang.ir.tile_program import Alloc, For, Loop, Store
from tilelang.ir.values import Buffer, Unknown

_NONE = 0xFFFFFFFF
_BITS = 32


def nth_set_bit(run: Run, mask: Any, base: Any, offset: Any, span: Any) -> Any:
    """PTX ISA 9.7.1.19 fns, on integers: the `offset`-th set bit counted from `base`, itself the first;
    backwards for a negative `offset`; for 0 the bit at `base` alone. 0xffffffff if there is none.
    """
    if isinstance(mask, Unknown) or isinstance(base, Unknown) or isinstance(offset, Unknown):
        return next(v for v in (mask, base, offset) if isinstance(v, Unknown))
    mask, base, offset = cast("uint32", mask), cast("int32", base), cast("int32", offset)
    found, seen = _variable(run, "found", "uint32", _NONE, span), _variable(run, "seen", "int32", 0, span)
    zero = X.const(0, "int32")
    step = run.fresh("step")
    loop = Loop("serial", (step,), (0,), (_BITS,), span)
    backwards = compare(ast.Lt, offset, zero)
    position = binary(ast.Add, base, X.Select(backwards, binary(ast.Sub, zero, step), step))
    inside = conjunction(compare(ast.GtE, position, zero), compare(ast.Lt, position, _BITS))
    alone = disjunction(compare(ast.NotEq, offset, zero), compare(ast.Eq, step, zero))
    place = cast("uint32", X.max(zero, X.min(position, X.const(_BITS - 1, "int32"))))
    bit = binary(ast.BitAnd, binary(ast.RShift, mask, place), X.const(1, "uint32"))
    hit = conjunction(conjunction(inside, alone), compare(ast.Eq, bit, X.const(1, "uint32")))
    wanted = X.max(X.abs(offset), X.const(1, "int32"))
    count = binary(ast.Add, _value(seen), X.Select(hit, X.const(1, "int32"), zero))
    last = conjunction(hit, compare(ast.Eq, _value(seen), wanted))
    new = X.Select(last, cast("uint32", position), _value(found))
    # The bit is counted first, so that `last` compares with the number of this one.
    body: list[Any] = [
        Store(seen, (zero,), count, span, run.context),
        Store(found, (zero,), new, span, run.context),
    ]
    run.emit(For(loop, body))
    return _value(found)


def _variable(run: Run, name: str, dtype: str, init: int, span: Any) -> Buffer:
    saved, run.binding_name = run.binding_name, (name, span)
    made = new_buffer(run, "local.var", (1,), dtype, span, init=init)
    run.binding_name = saved
    run.emit(Alloc(made, span))
    return made


def _value(variable: Buffer) -> Any:
    return X.BufferLoad(variable.var, [X.const(0, "int32")])
