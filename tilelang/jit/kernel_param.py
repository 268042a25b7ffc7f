"""One parameter of a compiled kernel as callers see it: `kernel.params`, and what `supply_prog` is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm import tirx as X

from tilelang.language.dtypes import DType
from tilelang.runtime.plan import LaunchPlan, ScalarParam, SizeExpr, TensorParam
from tilelang.runtime.tensors import torch_dtype


@dataclass(frozen=True)
class KernelParam:
    """dtype and shape of a parameter; a scalar has no dimensions, a run-time size is its name or expression.

    record: the parameter in the launch plan.
    """

    dtype: DType
    shape: list[SizeExpr]
    name: str = ""
    record: TensorParam | ScalarParam | None = field(default=None, repr=False, compare=False)

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


def kernel_params(plan: LaunchPlan) -> list[KernelParam]:
    """The parameters of a plan in call order, outputs included, workspaces of the runtime not."""
    shown: Sequence[TensorParam | ScalarParam] = plan.params[: len(plan.params) - plan.hidden]
    return [KernelParam(DType(p.dtype), list(getattr(p, "shape", ())), p.name, p) for p in shown]
