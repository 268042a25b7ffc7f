"""A loaded kernel that can be called: arguments are checked, outputs allocated, blocks launched.

What follows from shapes alone is worked out once per signature (shapes, strides, dtypes, devices) and
remembered; a call with a known signature only allocates, packs pointers and launches.
"""

from __future__ import annotations

import math
import sys
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tilelang.runtime.artifact import Artifact
from tilelang.runtime.bind import ArgumentError, Binder, BoundCall
from tilelang.runtime.plan import LaunchPlan, ScalarParam
from tilelang.runtime.tensors import is_torch, maker, tracks_gradient, view

_REMEMBERED = 64  # signatures


@dataclass(frozen=True)
class _Known:
    """A signature whose checks have passed."""

    bound: BoundCall
    make: tuple[Callable[[], Any], ...]  # one per output
    sizes: tuple[int, ...]  # in the order of the device function's arguments
    blocks: int
    following: tuple[BoundCall, ...] = ()  # of the launches after the first


class LoadedKernel:
    """Calls one artifact. The device function is loaded at the first call."""

    def __init__(self, artifact: Artifact) -> None:
        self.artifact = artifact
        self.plan = artifact.plan
        self._binder = Binder(artifact.plan)
        self._later = [Binder(plan) for plan in artifact.plan.following]
        self._function: Any = None
        self._following: list[Any] = []
        self._known: OrderedDict[Any, _Known] = OrderedDict()
        self._order = _order(artifact.plan)
        self._symbols = artifact.plan.arguments[len(artifact.plan.params) :]
        self._numbers = tuple(i for i, p in enumerate(self._binder.inputs) if isinstance(p, ScalarParam))

    def __call__(self, *args: Any) -> Any:
        """Launch on `args` (inputs in call order). Returns the output tensor, a list of several, or None.

        Raises ArgumentError for arguments that do not fit; where there is no memory for the outputs, what
        torch or numpy raises, with their names.
        """
        if self._numbers:
            args = self._with_numbers(args)
        known = self._check(args)
        try:
            results = [make() for make in known.make]
        except (MemoryError, RuntimeError) as error:
            raise _no_memory(self.plan, known.bound, error) from error
        if known.blocks:
            function = self._function if self._function is not None else self.load()
            values = [results[i] if is_output else args[i] for is_output, i in self._order]
            if known.bound.blocks:
                function.launch(values, known.sizes, known.bound)
            for later, bound in zip(self._following, known.following, strict=True):
                if bound.blocks:
                    later.launch(values, known.sizes, bound)
        if self.plan.hidden:
            results = results[: len(results) - self.plan.hidden]
        if len(results) == 1:
            return results[0]
        return results or None

    def _with_numbers(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments with numbers in the place of tensors and arrays of one element: the number decides
        sizes, so calls are remembered by it.
        """
        given = list(args)
        for i in self._numbers:
            one = i < len(given) and math.prod(getattr(given[i], "shape", (0,))) == 1
            if one and hasattr(given[i], "item"):
                given[i] = given[i].item()
        return tuple(given)

    def load(self) -> Any:
        """Load the device function now and return it; a call does it by itself."""
        if self._function is None:
            self._following = [_load(replace(self.artifact, plan=plan)) for plan in self.plan.following]
            self._function = _load(self.artifact)
        return self._function

    def on_given_outputs(self) -> LoadedKernel:
        """The same kernel for callers that allocate: it takes the outputs in call order too, returns None."""
        function = self.load()
        plan = replace(self.plan, outputs=())
        given = LoadedKernel(replace(self.artifact, plan=plan))
        given._function, given._following = function, self._following
        return given

    def _check(self, args: tuple[Any, ...]) -> _Known:
        try:
            key = tuple([_signature(a) for a in args])
            known = self._known.get(key)
        except (TypeError, RuntimeError):  # neither number nor plain tensor: the checks name it
            return self._prepare(args)
        if known is None:
            known = self._prepare(args)
            self._known[key] = known
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return known

    def _prepare(self, args: tuple[Any, ...]) -> _Known:
        bound = self._binder.bind(args)
        following = tuple(binder.again(bound) for binder in self._later)
        blocks = bound.blocks + sum(b.blocks for b in following)
        if not blocks:
            self._check_nothing_to_write(bound)
        like = next((a for a in args if view(a) is not None), None)
        make = tuple(maker(dtype, shape, bound.device, like) for dtype, shape in bound.outputs)
        return _Known(bound, make, tuple(bound.sizes[s] for s in self._symbols), blocks, following)

    def _check_nothing_to_write(self, bound: BoundCall) -> None:
        """Without blocks the outputs stay as they are allocated, which only empty ones may."""
        for index, (_, shape) in zip(self.plan.outputs, bound.outputs, strict=False):
            if math.prod(shape):
                grid = ", ".join(map(str, bound.grid))
                raise ArgumentError(
                    f"the grid of {self.artifact.name} is empty ({grid}) for these sizes, so no block would "
                    f"write the output {self.plan.params[index].name} of shape {shape}"
                )


def _no_memory(plan: LaunchPlan, bound: BoundCall, error: Exception) -> Exception:
    """`error`, of an allocation, with the outputs that were to be allocated."""
    wanted = [
        f"{plan.params[i].name} of shape {shape} in {dtype}"
        for i, (dtype, shape) in zip(plan.allocated, bound.outputs, strict=True)
    ]
    why = (str(error).splitlines() or [type(error).__name__])[0]
    text = f"{plan.name} could not allocate {', '.join(wanted)} on {bound.device}: {why}"
    if type(error).__name__ == "OutOfMemoryError":  # torch's, which callers catch
        return type(error)(text)
    return MemoryError(text) if isinstance(error, MemoryError) else RuntimeError(text)


def _order(plan: LaunchPlan) -> list[tuple[bool, int]]:
    """For each parameter whether it is an output, and its number among the outputs or the inputs."""
    outputs = list(plan.allocated)
    inputs = [i for i in range(len(plan.params)) if i not in outputs]
    return [(i in outputs, (outputs if i in outputs else inputs).index(i)) for i in range(len(plan.params))]


def _load(artifact: Artifact) -> Any:
    if artifact.plan.kind == "cpu":
        from tilelang.runtime.cpu import CpuFunction

        return CpuFunction(artifact)
    if artifact.plan.kind == "cuda":
        from tilelang.runtime.cuda import CudaFunction

        return CudaFunction(artifact)
    raise ArgumentError(
        f"{artifact.name} was compiled for {artifact.target}: its source was generated, "
        "but this runtime cannot launch it"
    )


def _signature(value: Any) -> Any:
    """What of an argument the checks look at."""
    if is_torch(value):
        if value.is_neg() or value.layout is not sys.modules["torch"].strided:
            raise TypeError  # the checks say why
        return value.shape, value.stride(), value.dtype, value.device, tracks_gradient(value)
    found = view(value)
    if found is not None:
        return found.shape, found.strides, found.dtype, found.device, value.flags.writeable
    return type(value), value
