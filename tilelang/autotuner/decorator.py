"""`@tilelang.autotune`: a kernel that searches its configurations at the first call with new arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilelang.autotuner.configurations import Configuration, Configurations, expand
from tilelang.autotuner.inputs import get_autotune_inputs
from tilelang.autotuner.trial import ProfileArgs
from tilelang.autotuner.tuner import AutoTuner, AutotuneResult
from tilelang.jit.functions import JITFunction, NoKernelError, freeze
from tilelang.jit.kernel import JITKernel
from tilelang.profiler import TensorSupplyType
from tilelang.runtime.tensors import view


@dataclass(eq=False, repr=False)
class AutoTuneImpl:
    """A kernel function under `@tilelang.autotune`.

    Called like the function under `@tilelang.jit` that it wraps, without the tuned parameters: a lazy one
    returns its fastest kernel (with `latency`, `config` and `ref_latency`), an eager one runs it. A call that
    gives the tuned parameters itself does not search.
    """

    function: JITFunction
    configs: Configurations
    profiling: ProfileArgs
    do_not_specialize: Sequence[str] = ()

    def __post_init__(self) -> None:
        self.do_not_specialize = tuple(self.do_not_specialize)
        self._results: dict[Any, AutotuneResult] = {}
        self._expanded: dict[Any, list[Configuration]] = {}
        functools.update_wrapper(self, self.function.function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._mode(args, kwargs) == "lazy":
            return self.compile(*args, **kwargs)
        found = self._tuned(args, kwargs)
        if found is None:
            return self.function(*args, **kwargs)
        values = {k: v for k, v in found.config.items() if k != "pass_configs"}
        chosen = self.function.under(None, found.config.get("pass_configs"))
        return chosen(*args, **{**kwargs, **values})

    def compile(self, *args: Any, **kwargs: Any) -> JITKernel:
        """The fastest kernel for these arguments, without running it on them."""
        found = self._tuned(args, kwargs)
        return self.function.compile(*args, **kwargs) if found is None else found.kernel

    @property
    def jit_impl(self) -> JITFunction:
        """The function under `@tilelang.jit`."""
        return self.function

    def __getattr__(self, name: str) -> Any:
        """`warmup`, `rep`, `timeout`, `ref_prog` and the other options of the search."""
        if name not in ProfileArgs.__dataclass_fields__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.profiling, name)

    def get_tunner(self) -> AutoTuner:
        """A tuner with these configurations and options, still without arguments."""
        tuner = AutoTuner(self.function, self.configs)
        tuner.profiling = self.profiling
        return tuner

    def tune(self, *args: Any, **kwargs: Any) -> AutotuneResult | None:
        """The result of the search for these arguments; None if they leave nothing to search."""
        return self._tuned(args, kwargs)

    def _tuned(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> AutotuneResult | None:
        key = self._memory_key(args, kwargs)
        if key in self._results:
            return self._results[key]
        configs = self._configurations(args, kwargs)
        left = _without(configs, self._given(args, kwargs))
        if left == [{}]:
            return None
        tuner = AutoTuner(self.function, left)
        tuner.profiling = self.profiling
        tuner.set_kernel_parameters((args, kwargs), None, self.do_not_specialize)
        tuner.set_inputs(self._tensors(args, kwargs))
        self._results[key] = tuner.run()
        return self._results[key]

    def _mode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """`eager` or `lazy`; where only a call can tell, the first configuration completes it."""
        first = next(iter(self._configurations(args, kwargs)), {})
        given = self._given(args, kwargs)
        rest = {k: v for k, v in first.items() if k not in given and k != "pass_configs"}
        return self.function.mode_for(*args, **kwargs, **rest)

    def _configurations(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Configuration]:
        """The configurations for these arguments; a function that makes them is asked once."""
        key = self._memory_key(args, kwargs)
        if key not in self._expanded:
            self._expanded[key] = expand(self.configs, args, kwargs)
        return self._expanded[key]

    def _given(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> frozenset[str]:
        """Names of the parameters that the call gives a value."""
        positional = list(self.function.signature.parameters)[: len(args)]
        return frozenset([*positional, *kwargs])

    def _tensors(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any] | None:
        """The tensors of an eager call, in order: it is tuned on what it is called with."""
        if self._mode(args, kwargs) == "lazy" or get_autotune_inputs() is not None:
            return None
        bound = self.function.signature.bind_partial(
            *args, **{k: v for k, v in kwargs.items() if k in self.function.signature.parameters}
        )
        tensors = [v for v in bound.arguments.values() if view(v) is not None]
        return tensors or None

    def _memory_key(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        def entry(value: Any) -> Any:
            tensor = view(value)
            if tensor is None:
                return freeze(value)
            return tensor.dtype, tensor.shape, tensor.strides, tensor.device

        named = {k: v for k, v in kwargs.items() if k not in self.do_not_specialize}
        return tuple(map(entry, args)), tuple((k, entry(v)) for k, v in sorted(named.items()))

    def __repr__(self) -> str:
        return f"<tilelang.autotune {self.function.function.__qualname__}>"


def autotune(
    func: Callable[..., Any] | None = None,
    *,
    configs: Configurations,
    warmup: float = 25,
    rep: float = 100,
    timeout: float = 100,
    supply_type: TensorSupplyType = TensorSupplyType.Auto,
    ref_prog: Callable[..., Any] | None = None,
    supply_prog: Callable[..., Any] | None = None,
    rtol: float = 1e-2,
    atol: float = 1e-2,
    max_mismatched_ratio: float = 0.01,
    skip_check: bool = False,
    manual_check_prog: Callable[[Any, Any], None] | None = None,
    cache_input_tensors: bool = False,
    do_not_specialize: Sequence[str] | None = None,
    early_stop: bool = False,
    early_stop_factor: float = 2.0,
) -> Any:
    """Search `configs` at the first call with new arguments and use the fastest.

    Stands above `@tilelang.jit`.

    configs: mappings of parameters to values; a mapping of parameters to lists of values (every
    combination); or a function of the call's arguments that returns either. A configuration may carry
    `pass_configs`.
    warmup, rep: milliseconds to warm up and to measure each; timeout: seconds for each. ref_prog: what
    results are compared with (unless skip_check) and timed against. early_stop: give a configuration up that
    takes more than early_stop_factor times the best so far. The result is remembered, also on disk.
    """
    profiling = ProfileArgs(
        warmup=warmup,
        rep=rep,
        timeout=timeout,
        supply_type=supply_type,
        ref_prog=ref_prog,
        supply_prog=supply_prog,
        rtol=rtol,
        atol=atol,
        max_mismatched_ratio=max_mismatched_ratio,
        skip_check=skip_check,
        manual_check_prog=manual_check_prog,
        cache_input_tensors=cache_input_tensors,
        early_stop=early_stop,
        early_stop_factor=early_stop_factor,
    )

    def decorate(function: Callable[..., Any]) -> AutoTuneImpl:
        if not isinstance(function, JITFunction):
            name = getattr(function, "__name__", type(function).__name__)
            raise NoKernelError(
                "The @autotune decorator can only be applied to @tilelang.jit decorated functions: it stands "
                f"above @tilelang.jit, which {name} has not"
            )
        return AutoTuneImpl(function, configs, profiling, do_not_specialize or ())

    return decorate if func is None else decorate(func)


def _without(configs: Sequence[Mapping[str, Any]], given: frozenset[str]) -> list[Configuration]:
    """The different configurations that remain of the parameters a call leaves open."""
    left: list[Configuration] = []
    for config in configs:
        rest = {k: v for k, v in config.items() if k not in given}
        if rest not in left:
            left.append(rest)
    return left
