"""Recommendations for functions of plain loops, without naming their operator."""

from __future__ import annotations

from typing import Any

from tilelang.carver.arch import TileDevice
from tilelang.carver.roller.hint import Hint
from tilelang.carver.roller.node import OutputNode
from tilelang.carver.roller.policy import DefaultPolicy, TensorCorePolicy


def retrieve_func_from_module(ir_module: Any) -> Any:
    """The one function of a module of tvm. Raises ValueError for another number of them."""
    functions = list(ir_module.functions.values())
    if len(functions) != 1:
        raise ValueError(f"a module with one function is expected, this one has {len(functions)}")
    return functions[0]


def get_roller_hints_from_func(
    func_or_module: Any,
    arch: TileDevice,
    topk: int = 10,
    tensorcore_only: bool = False,
    allow_gemv: bool = False,
) -> list[Hint] | None:
    """The configurations expected to be fastest, those on matrix instructions where there are any.

    tensorcore_only: None for a function that does not use them. allow_gemv: products of a matrix and a
    vector are recognised in any case.
    """
    is_module = hasattr(func_or_module, "functions")
    func = retrieve_func_from_module(func_or_module) if is_module else func_or_module
    found = TensorCorePolicy.from_prim_func(func, arch).emit_config(topk)
    if found:
        return found
    return None if tensorcore_only else DefaultPolicy.from_prim_func(func, arch).emit_config(topk)


def get_roller_hints_from_output_nodes(
    output_nodes: list[OutputNode], arch: TileDevice, topk: int = 10, extra_tags: list[str] | None = None
) -> list[Hint]:
    """As `get_roller_hints_from_func`, for the operator that a graph ends in."""
    tags = dict.fromkeys(extra_tags or (), True)
    found = TensorCorePolicy.from_output_nodes(output_nodes, arch, tags).emit_config(topk)
    return found or DefaultPolicy.from_output_nodes(output_nodes, arch, tags).emit_config(topk)
