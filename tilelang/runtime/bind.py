"""Checks the arguments of a call against the plan and solves its sizes; nothing is launched or written on
failure.

Sizes are solved in the order of the parameters: a dimension that is one unknown symbol, or linear in one,
gives it its value; every other dimension must agree. Messages name the tensor, the dimension, what was
expected (and where from), what was found.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilelang.runtime.plan import LaunchPlan, ScalarParam, TensorParam
from tilelang.runtime.sizes import Size, compile_size
from tilelang.runtime.tensors import TensorView, address, misfit, same_dtype, unpacked, unwritable, view

# Torch's name for HIP is cuda.
_DEVICE_OF_KIND = {"cuda": "cuda", "hip": "cuda", "metal": "mps", "cpu": "cpu"}
_INT_BITS = {
    "int8": 8,
    "int16": 16,
    "int32": 32,
    "int64": 64,
    "uint8": 8,
    "uint16": 16,
    "uint32": 32,
    "uint64": 64,
}


_MOST = 2**31 - 1  # of elements along a dimension


class ArgumentError(ValueError, RuntimeError):
    """The arguments of a call do not fit the kernel.

    Both classes, since callers expect one or the other: the language's release raises RuntimeError where host
    code finds the mistake and ValueError where Python does.
    """


def in_order(plan: LaunchPlan, given: int, named: Mapping[str, Any]) -> list[Any]:
    """Arguments by name in call order, behind `given` ones by position.

    Raises ArgumentError for a name that no input has, one that is given twice, and one that is missing.
    """
    names = [p.name for i, p in enumerate(plan.params) if i not in plan.allocated]
    for name in named:
        if name not in names:
            raise ArgumentError(f"{plan.name} has no input {name}; it takes {', '.join(names)}")
        if name in names[:given]:
            raise ArgumentError(f"{plan.name} got {name} twice, by position and by name")
    missing = [name for name in names[given:] if name not in named]
    if missing:
        raise ArgumentError(f"{plan.name} got no {', '.join(missing)}; it takes {', '.join(names)}")
    return [named[name] for name in names[given:]]


@dataclass(frozen=True)
class BoundCall:
    """Everything about a call that follows from shapes alone."""

    sizes: dict[str, int]
    grid: tuple[int, ...]
    outputs: tuple[tuple[str, tuple[int, ...]], ...]  # (dtype, shape)
    workspace: tuple[int, ...]
    device: str

    @property
    def blocks(self) -> int:
        """How many blocks run."""
        return math.prod(self.grid)

    @functools.cached_property
    def launch_grid(self) -> tuple[int, int, int]:
        """The grid with all three extents."""
        x, y, z = (*self.grid, 1, 1)[:3]
        return x, y, z

    @functools.cached_property
    def device_index(self) -> int:
        """The number of the device: 1 for `cuda:1`."""
        return int(self.device.partition(":")[2] or 0)


class Binder:
    """The checks of one kernel, prepared once."""

    def __init__(self, plan: LaunchPlan) -> None:
        self.plan = plan
        self.inputs = tuple(p for i, p in enumerate(plan.params) if i not in plan.allocated)
        self._results = tuple(plan.params[i] for i in plan.allocated)
        self._grid = tuple(compile_size(g) for g in plan.grid)
        self._workspace = tuple(compile_size(w) for w in plan.workspace)

    def bind(self, args: Sequence[Any]) -> BoundCall:
        """Check `args` (inputs in call order) and solve the sizes.

        Raises ArgumentError, also for arguments of the wrong kind, before anything is touched.
        """
        if len(args) != len(self.inputs):
            names = ", ".join(p.name for p in self.inputs)
            outputs = ", ".join(self.plan.params[i].name for i in self.plan.outputs)
            note = f"; {outputs} is allocated and returned" if outputs else ""
            raise ArgumentError(
                f"Kernel expected {len(self.inputs)} inputs, but {len(args)} are provided: "
                f"{self.plan.name} takes {len(self.inputs)} arguments ({names}){note}"
            )
        solver = _Solver(self.plan)
        for param, arg in zip(self.inputs, args, strict=True):
            if arg is None and isinstance(param, TensorParam) and param.unused:
                solver.absent(param)
            elif isinstance(param, TensorParam) and param.unchecked:
                solver.device = self._pointer(param, arg, solver.device)
            elif isinstance(param, ScalarParam):
                solver.sizes[param.name] = self._scalar(param, arg)
            else:
                solver.add(param, self._tensor(param, arg, solver.device))
        sizes = solver.finish()
        device = solver.device or _DEVICE_OF_KIND[self.plan.kind]
        outputs = tuple((p.dtype, self._shape(p, sizes)) for p in self._results)
        return BoundCall(
            sizes,
            tuple(max(g.evaluate(sizes), 0) for g in self._grid),
            outputs,
            tuple(w.evaluate(sizes) for w in self._workspace),
            device,
        )

    def again(self, bound: BoundCall) -> BoundCall:
        """The same call for a later launch of the kernel, whose plan this binder has."""
        return replace(
            bound,
            grid=tuple(max(g.evaluate(bound.sizes), 0) for g in self._grid),
            workspace=tuple(w.evaluate(bound.sizes) for w in self._workspace),
        )

    def _pointer(self, param: TensorParam, arg: Any, device: str | None) -> str | None:
        """The device of an argument of which only the address counts."""
        if isinstance(arg, int) and not isinstance(arg, bool):
            if arg <= 0:
                raise ArgumentError(f"{self._input(param)} must be a tensor or an address, got {arg}")
            return device
        self._refuse(param, misfit(arg))
        found = view(arg)
        if found is None:
            kind = type(arg).__name__
            raise ArgumentError(f"{self._input(param)} must be a tensor or an address, got {kind}")
        self._on_device(param, found, device)
        self._memory(param, found, arg)
        return found.device

    def _tensor(self, param: TensorParam, arg: Any, device: str | None) -> TensorView:
        self._refuse(param, misfit(arg))
        found = view(arg)
        if found is None:
            kind = type(arg).__name__
            raise ArgumentError(f"{self._input(param)} must be a tensor of {param.dtype}, got {kind}")
        found = unpacked(found, param.dtype)
        if not same_dtype(found.dtype, param.dtype):
            raise ArgumentError(
                f"{self._input(param)} dtype mismatch, expected {param.dtype}, got {found.dtype}"
            )
        if len(found.shape) != len(param.shape):
            expected = ", ".join(map(str, param.shape))
            raise ArgumentError(
                f"{self._input(param)} ndim mismatch, expected {len(param.shape)}: ({expected}), "
                f"got {len(found.shape)}: {found.shape}"
            )
        self._on_device(param, found, device)
        self._memory(param, found, arg)
        return found

    def _memory(self, param: TensorParam, found: TensorView, arg: Any) -> None:
        """Refuse what has no memory, or memory into which this kernel must not write."""
        refuse_without_memory(self.plan.name, [param], [arg])
        if not param.written:
            return
        self._refuse(param, unwritable(arg))
        shared = [d for d, stride in enumerate(found.strides) if not stride and found.shape[d] > 1]
        if shared and param.strides is not None:
            raise ArgumentError(
                f"{self._input(param)} strides[{shared[0]}] mismatch: the stride of dimension {shared[0]} is "
                f"0, so its {found.shape[shared[0]]} elements are one and the same, but {self.plan.name} "
                f"writes it; pass {param.name}.contiguous()"
            )

    def _refuse(self, param: TensorParam, why: str | None) -> None:
        if why is not None:
            raise ArgumentError(f"{self._input(param)} cannot be used: {why.format(name=param.name)}")

    def _on_device(self, param: TensorParam, found: TensorView, device: str | None) -> None:
        kind = found.device.partition(":")[0]
        wanted = _DEVICE_OF_KIND[self.plan.kind]
        if kind != wanted:
            raise ArgumentError(
                f"{self._input(param)} device_type mismatch, expected {wanted}, got {found.device}: "
                f"{self.plan.name} was compiled for {self.plan.kind}"
            )
        if device is not None and found.device != device:
            raise ArgumentError(
                f"{self._input(param)} device_id mismatch: it is on {found.device}, "
                f"the tensors before it are on {device}"
            )

    def _input(self, param: TensorParam | ScalarParam) -> str:
        return _input_text(self.plan, param.name)

    def _scalar(self, param: ScalarParam, arg: Any) -> Any:
        value = arg.item() if hasattr(arg, "item") and math.prod(getattr(arg, "shape", ())) == 1 else arg
        if isinstance(value, bool) or not isinstance(value, int | float):
            if param.dtype == "bool" and isinstance(value, bool):
                return int(value)
            kind = type(arg).__name__
            raise ArgumentError(f"{self._input(param)} must be a number of {param.dtype}, got {kind}")
        bits = _INT_BITS.get(param.dtype)
        if bits is None:
            return value
        if not isinstance(value, int):
            raise ArgumentError(f"{self._input(param)} must be an integer of {param.dtype}, got {value!r}")
        low, high = (0, 2**bits) if param.dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1))
        if not low <= value < high:
            raise ArgumentError(f"{self._input(param)} = {value} does not fit into {param.dtype}")
        return value

    def _shape(self, param: TensorParam | ScalarParam, sizes: dict[str, int]) -> tuple[int, ...]:
        assert isinstance(param, TensorParam)  # scalars are never outputs
        return tuple(compile_size(s).evaluate(sizes) for s in param.shape)


def _input_text(plan: LaunchPlan, name: str) -> str:
    """How messages call an argument."""
    return f"kernel {plan.name} input {name}"


def refuse_without_memory(
    kernel: str, params: Sequence[TensorParam | ScalarParam], values: Sequence[Any]
) -> None:
    """Raises ArgumentError for an argument of which torch knows the shape only: its address is null."""
    for param, value in zip(params, values, strict=True):
        if isinstance(param, TensorParam) and math.prod(getattr(value, "shape", (0,))) and not address(value):
            raise ArgumentError(
                f"kernel {kernel} input {param.name} has no memory: its storage was freed, or it only stands "
                f"for a tensor (a fake tensor, one inside of torch.vmap or torch.func)"
            )


@dataclass(frozen=True)
class _Equation:
    """One dimension (or stride) of an argument and the size it was declared with."""

    name: str
    what: str  # "dimension 0", "stride of dimension 0"
    size: Size
    found: int

    @property
    def part(self) -> str:
        """The same as an element of the tensor's `shape` or `strides`."""
        dimension = self.what.rpartition(" ")[2]
        return f"{'strides' if self.what.startswith('stride') else 'shape'}[{dimension}]"


class _Solver:
    """Collects what the arguments say and solves the symbols of the plan."""

    def __init__(self, plan: LaunchPlan) -> None:
        self.sizes: dict[str, Any] = {}
        self.device: str | None = None
        self._plan = plan
        self._open: list[_Equation] = []
        self._spare: list[_Equation] = []  # of single elements, for strides that nothing else says
        self._absent: set[str] = set()  # sizes of arguments that are None
        self._origin: dict[str, str] = {}

    def absent(self, param: TensorParam) -> None:
        """An argument that the kernel does not touch, left out."""
        for size in (*param.shape, *(param.strides or ())):
            self._absent.update(compile_size(size).symbols)

    def add(self, param: TensorParam, found: TensorView) -> None:
        self.device = found.device
        for d, size in enumerate(param.shape):
            if found.shape[d] > _MOST:
                raise ArgumentError(
                    f"{self._input(param.name)}: dimension {d} is {found.shape[d]}, but kernels count the "
                    f"elements of a dimension with 32 bits, up to {_MOST}: pass the tensor in parts, or give "
                    f"it one more dimension"
                )
            self._open.append(_Equation(param.name, f"dimension {d}", compile_size(size), found.shape[d]))
        if 0 in found.shape:
            return  # nothing is read, strides mean nothing
        if param.strides is None:
            self._contiguous(param, found)
            return
        for d, size in enumerate(param.strides):
            stride = found.strides[d]
            equation = _Equation(param.name, f"stride of dimension {d}", compile_size(size), stride)
            # The stride of a single element is never used, so it need not be right.
            (self._open if found.shape[d] > 1 else self._spare).append(equation)

    def _contiguous(self, param: TensorParam, found: TensorView) -> None:
        expected = 1
        for d in reversed(range(len(found.shape))):
            if found.shape[d] > 1 and found.strides[d] != expected:
                raise ArgumentError(
                    f"{self._input(param.name)} strides[{d}] mismatch: it is not contiguous, the stride of "
                    f"dimension {d} is {found.strides[d]}, expected {expected}; "
                    f"pass {param.name}.contiguous(), or declare it with T.StridedTensor"
                )
            expected *= found.shape[d]

    def finish(self) -> dict[str, int]:
        """All sizes.

        Raises ArgumentError for the first dimension that disagrees, or a size that nothing determines.
        """
        self._solve_open()
        for equation in self._spare:
            if equation.size.text in self._plan.symbols and equation.size.text not in self.sizes:
                self._open.append(equation)
                self._solve_open()
        needed = {s for extent in self._plan.grid for s in compile_size(extent).symbols}
        for symbol in self._absent - needed:  # sizes of what is not there
            self.sizes.setdefault(symbol, 0)
        missing = [s for s in self._plan.symbols if s not in self.sizes]
        if missing:
            where = self._open[0] if self._open else None
            detail = f": {where.what} of {where.name} is {where.size.text}" if where else ""
            raise ArgumentError(
                f"{self._plan.name} cannot work out {', '.join(missing)} "
                f"from the shapes of its arguments{detail}"
            )
        self._refuse_wide()
        return self.sizes

    def _refuse_wide(self) -> None:
        """Raises ArgumentError for a size that the kernel's 32 bits would cut off."""
        for symbol in self._plan.symbols:
            value = self.sizes[symbol]
            if symbol not in self._plan.wide and not -_MOST <= value <= _MOST:
                where = f", from {self._origin[symbol]}," if symbol in self._origin else ""
                raise ArgumentError(
                    f"{symbol} = {value}{where} does not fit into the 32 bits in which {self._plan.name} "
                    f'takes it: declare it as T.dynamic("{symbol}", "int64")'
                )

    def _solve_open(self) -> None:
        """Work out what can be. A symbol is read where it stands alone, else solved for where a size is
        linear in it; `N // 2` fixes no N, it waits for another size that does.
        """
        while self._open:
            ready = [e for e in self._open if not self._unknown(e)]
            for equation in ready:
                self._check(equation)
            self._open = [e for e in self._open if e not in ready]
            alone = next((e for e in self._open if self._unknown(e) == [e.size.text]), None)
            chosen = alone or next((e for e in self._open if self._solvable(e)), None)
            if chosen is None:
                return
            self._solve(chosen, self._unknown(chosen)[0])
            self._open.remove(chosen)

    def _unknown(self, equation: _Equation) -> list[str]:
        return [s for s in equation.size.symbols if s not in self.sizes]

    def _solvable(self, equation: _Equation) -> bool:
        unknown = self._unknown(equation)
        return len(unknown) == 1 and equation.size.is_linear(unknown[0], self.sizes)

    def _solve(self, equation: _Equation, symbol: str) -> None:
        size = equation.size
        value = equation.found if size.text == symbol else size.solve(symbol, equation.found, self.sizes)
        if value is None:
            raise ArgumentError(
                f"{self._input(equation.name)} {equation.part} mismatch: {equation.what} is "
                f"{equation.found}, "
                f"but no integer {symbol} makes {size.text} that"
            )
        self.sizes[symbol] = value
        self._origin[symbol] = f"{equation.what} of {equation.name}"

    def _check(self, equation: _Equation) -> None:
        expected = equation.size.evaluate(self.sizes)
        if expected == equation.found:
            return
        size = equation.size
        why = ""
        if not size.is_number:
            origins = [
                f"{s} = {self.sizes[s]} from {self._origin[s]}" for s in size.symbols if s in self._origin
            ]
            why = f" = {size.text}" + (f" ({', '.join(origins)})" if origins else "")
        raise ArgumentError(
            f"{self._input(equation.name)} {equation.part} mismatch: "
            f"{equation.what} is {equation.found}, expected {expected}{why}"
        )

    def _input(self, name: str) -> str:
        return _input_text(self._plan, name)
