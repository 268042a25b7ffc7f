"""Names of tvm that release 0.1.15 has and stock tvm keeps elsewhere: `tvm.ir.structural_equal`, `tvm.arith`.

The release brings a tvm of its own; code around kernels reaches it by `from tilelang import tvm` or by
`import tvm`. What stock tvm has under another name is given the released one too; nothing that it has is
changed, but that a `PrimFunc` is also made with a `buffer_map`.
"""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import tvm
import tvm_ffi
from tvm import ir, s_tir
from tvm import tirx as X

from tilelang.ir import tile_ops

# Operations of the release that code names by `tvm.ir.Op.get("tl.pack_b16")`, for T.call_intrin.
_OPERATIONS = ("tl.pack_b16", "tl.ptx_stmatrix", "tl.tma_load", "tl.tma_store", "tl.create_tma_descriptor")
_MODULES = ("tvm.arith", "tvm.ffi", "tvm.tirx.stmt_functor")  # made by `tilelang.released_modules`


def add_released_names() -> None:
    """Give tvm the released names that it lacks; done where it is already."""
    for module in _MODULES:
        importlib.import_module(module)
    for operation in _OPERATIONS:
        tile_ops.op(operation)
    for place, names in (
        (tvm, {"TVMError": RuntimeError}),
        (tvm.error, {"TVMError": RuntimeError}),
        (
            ir,
            {
                "BaseExpr": ir.Expr,
                "PrimExpr": ir.Expr,
                "structural_equal": structural_equal,
                "structural_hash": structural_hash,
            },
        ),
        (
            X,
            {
                "Call": ir.Call,
                "PrimExpr": ir.Expr,
                "SBlock": s_tir.SBlock,
                "SBlockRealize": s_tir.SBlockRealize,
                "SizeVar": ir.Var,
                "StringImm": ir.StringImm,
            },
        ),
    ):
        for name, value in names.items():
            if not hasattr(place, name):
                setattr(place, name, value)
    _take_buffer_maps()


def _take_buffer_maps() -> None:
    """Let `PrimFunc(params, body, buffer_map=...)` make a function: the release keeps the tensors of
    parameters in that map, here they are the parameters. Calls without the keyword are what they were.
    """
    make = X.PrimFunc.__init__
    if "buffer_map" in inspect.signature(make).parameters:
        return

    def init(
        self: Any,
        params: Any,
        body: Any,
        ret_type: Any = None,
        attrs: Any = None,
        span: Any = None,
        *,
        buffer_map: Any = None,
    ) -> None:
        pairs = list(buffer_map.items()) if buffer_map else []
        given = [next((b for v, b in pairs if v is p or v.same_as(p)), p) for p in params]
        make(self, given, body, ret_type, attrs, span)

    X.PrimFunc.__init__ = init


def structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> bool:
    """Whether two functions, statements or expressions say the same; map_free_vars: up to the names of free
    variables. Of two layouts: whether they place every element alike.
    """
    if hasattr(lhs, "is_equal") and type(lhs) is type(rhs):
        return bool(lhs.is_equal(rhs))
    return bool(tvm_ffi.structural_equal(_node(lhs), _node(rhs), map_free_vars=map_free_vars))


def structural_hash(node: Any, map_free_vars: bool = False) -> int:
    """A number that is equal for what `structural_equal` takes for equal."""
    return int(tvm_ffi.structural_hash(_node(node), map_free_vars=map_free_vars))


def _node(given: Any) -> Any:
    """The tile function of a function under `@T.prim_func`; anything else itself."""
    convert = getattr(type(given), "__tvm_ffi_object__", None)
    return given if convert is None else convert(given)
