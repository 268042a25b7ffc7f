"""A loaded kernel that can be called: arguments are checked, outputs allocated, blocks launched."""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from typing import Any

from tilelang.runtime.artifact import Artifact
from tilelang.runtime.bind import ArgumentError, Binder, BoundCall
from tilelang.runtime.plan import ScalarParam
from tilelang.runtime.tensors import empty, is_torch, view

# Remembered argument signatures; a call with known shapes skips the checks that depend on them alone.
_REMEMBERED = 64


class LoadedKernel:
    """Calls one artifact. The device function is loaded at the first call."""

    def __init__(self, artifact: Artifact) -> None:
        self.artifact = artifact
        self.plan = artifact.plan
        self._binder = Binder(artifact.plan)
        self._function: Any = None
        self._known: OrderedDict[Any, BoundCall] = OrderedDict()
        self._outputs = set(artifact.plan.outputs)
        self._is_scalar = tuple(isinstance(p, ScalarParam) for p in self._binder.inputs)
        self._symbols = artifact.plan.arguments[len(artifact.plan.params) :]

    def __call__(self, *args: Any) -> Any:
        """Launch on `args` (inputs in call order). Returns the output tensor, a tuple of several, or None.

        Raises ArgumentError for arguments that do not fit.
        """
        bound = self._bind(args)
        like = next((a for a, s in zip(args, self._is_scalar, strict=True) if not s), None)
        results = [empty(dtype, shape, bound.device, like) for dtype, shape in bound.outputs]
        if bound.blocks:
            self._launch(self._merge(args, results), bound)
        return results[0] if len(results) == 1 else tuple(results) or None

    def load(self) -> None:
        """Load the device function now; a call does it by itself."""
        if self._function is None:
            self._function = self._load()

    def _bind(self, args: tuple[Any, ...]) -> BoundCall:
        try:
            key = tuple(_signature(a) for a in args)
            bound = self._known.get(key)
        except TypeError:  # an argument that is no tensor and no number: let the checks name it
            return self._binder.bind(args)
        if bound is None:
            bound = self._binder.bind(args)
            self._known[key] = bound
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return bound

    def _merge(self, args: tuple[Any, ...], results: list[Any]) -> list[Any]:
        """All parameters in call order."""
        inputs, outputs = iter(args), iter(results)
        return [next(outputs) if i in self._outputs else next(inputs) for i in range(len(self.plan.params))]

    def _launch(self, values: list[Any], bound: BoundCall) -> None:
        self.load()
        sizes = [bound.sizes[s] for s in self._symbols]
        if self.plan.kind == "cpu":
            self._function.launch([*map(_cpu_argument, values), *sizes], bound.blocks, bound.workspace)
        else:
            self._function.launch(values, sizes, bound.grid, bound.device)

    def _load(self) -> Any:
        if self.plan.kind == "cpu":
            from tilelang.runtime.cpu import CpuFunction

            return CpuFunction(self.artifact)
        if self.plan.kind == "cuda":
            from tilelang.runtime.cuda import CudaFunction

            return CudaFunction(self.artifact)
        raise ArgumentError(
            f"{self.artifact.name} was compiled for {self.artifact.target}: its source was generated, "
            "but this runtime cannot launch it"
        )


def _signature(value: Any) -> Any:
    """What of an argument the checks look at."""
    if is_torch(value):
        return value.shape, value.dtype, value.device, value.stride()
    found = view(value)
    if found is not None:
        return found.shape, found.dtype, found.device, found.strides
    return type(value), value


def _cpu_argument(value: Any) -> Any:
    if is_torch(value):
        return ctypes.c_void_p(value.data_ptr())
    found = view(value)
    return value if found is None else ctypes.c_void_p(found.pointer)


__all__ = ["ArgumentError", "LoadedKernel"]
