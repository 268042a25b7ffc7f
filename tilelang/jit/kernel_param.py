"""One parameter of a compiled kernel as callers see it: `kernel.params`, and what `supply_prog` is given."""

from __future__ import annotations

import ast
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm import tirx as X

from tilelang.language.dtypes import DType
from tilelang.parsing import parse
from tilelang.runtime.plan import LaunchPlan, ScalarParam, SizeExpr, TensorParam
from tilelang.runtime.tensors import torch_dtype

_OPERATORS: Mapping[type[ast.operator], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


@dataclass(frozen=True)
class KernelParam:
    """dtype and shape of a parameter; a scalar has no dimensions, a run-time size is tvm's variable of that
    name, or an expression of such.

    record: the parameter in the launch plan.
    """

    dtype: DType
    shape: list[Any]
    name: str = field(default="", compare=False)
    record: TensorParam | ScalarParam | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Any spelling of a dtype will do: torch's, or a name."""
        object.__setattr__(self, "dtype", DType(self.dtype))

    @staticmethod
    def from_buffer(buffer: Any) -> KernelParam:
        """The parameter of a tensor of a tile function; sizes that are no numbers are their expressions."""
        shape = [int(n) if isinstance(n, int | X.IntImm) else n for n in buffer.shape]
        return KernelParam(DType(str(buffer.dtype)), shape, str(buffer.name))

    @staticmethod
    def from_var(var: Any) -> KernelParam:
        """The parameter of a number of a tile function."""
        return KernelParam(DType(str(var.ty)), [], str(var.name))

    def torch_dtype(self) -> Any:
        """The torch dtype that the kernel takes. Raises ValueError where torch has none."""
        return torch_dtype(str(self.dtype))

    def tilelang_dtype(self) -> DType:
        """The dtype as the language has it."""
        return self.dtype

    def is_scalar(self) -> bool:
        """Whether a number is passed, not a tensor."""
        return not self.shape and not isinstance(self.record, TensorParam)

    def is_unsigned(self) -> bool:
        """Whether the elements are unsigned integers."""
        return self.dtype.startswith("uint")

    def is_boolean(self) -> bool:
        """Whether the elements are truth values."""
        return self.dtype.startswith("bool")

    def is_float8(self) -> bool:
        """Whether the elements are 8-bit floats."""
        return self.dtype.startswith("float8")

    def is_float4(self) -> bool:
        """Whether the elements are 4-bit floats."""
        return self.dtype.startswith("float4")


def kernel_params(plan: LaunchPlan, func: Any = None) -> list[KernelParam]:
    """The parameters of a plan in call order, outputs included, workspaces of the runtime not.

    func: the tile function, whose variables stand for run-time sizes; without it they are new ones.
    """
    shown: Sequence[TensorParam | ScalarParam] = plan.params[: len(plan.params) - plan.hidden]
    buffers = {} if func is None else {str(b.name): b for b in func.buffer_map.values()}
    variables = {name: X.Var(name, "int64" if name in plan.wide else "int32") for name in plan.symbols}
    found = []
    for param in shown:
        written = getattr(param, "shape", ())
        if param.name in buffers:
            shape = KernelParam.from_buffer(buffers[param.name]).shape
        else:
            shape = [_expression(size, variables) for size in written]
        found.append(KernelParam(DType(param.dtype), shape, param.name, param))
    return found


def _expression(size: SizeExpr, variables: Mapping[str, Any]) -> Any:
    """A size of a plan over tvm's variables; its text where tvm's arithmetic has no such operation."""
    if isinstance(size, int):
        return size
    found = _node(parse(size, mode="eval").body, variables)
    return size if found is None else found


def _node(node: ast.expr, variables: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        return variables[node.id]
    if isinstance(node, ast.Constant):
        return node.value
    if not isinstance(node, ast.BinOp) or type(node.op) not in _OPERATORS:
        return None
    left, right = _node(node.left, variables), _node(node.right, variables)
    return None if left is None or right is None else _OPERATORS[type(node.op)](left, right)
