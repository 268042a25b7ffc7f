"""The search: compile every configuration side by side, then check and time one after the other."""

from __future__ import annotations

import functools
import inspect
import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tilelang.autotuner import results
from tilelang.autotuner.compile_args import CompileArgs
from tilelang.autotuner.configurations import Configuration, Configurations, expand
from tilelang.autotuner.inputs import get_autotune_inputs
from tilelang.autotuner.trial import Bench, ProfileArgs
from tilelang.diagnostics.error import KernelError
from tilelang.jit.functions import JITFunction, compile_kernel
from tilelang.jit.kernel import JITKernel, load
from tilelang.jit.options import CompileOptions

logger = logging.getLogger(__name__)
_PASS_CONFIGS = "pass_configs"  # a configuration may carry these beside the kernel's parameters
_CONFIG_FILE, _TIMES_FILE = "best_config.json", "latency.json"  # of a result that is saved in a folder


@dataclass(frozen=True)
class AutotuneResult:
    """The fastest configuration, its milliseconds and the reference's (None: not given), its source, its tile
    function and its kernel; what `run()` returns has them all.
    """

    latency: Any = None
    config: Any = None
    ref_latency: float | None = None
    libcode: str | None = None
    func: Any = None
    kernel: Any = None

    def save_to_disk(self, path: str | os.PathLike[str], verbose: bool = False) -> None:
        """Write a folder that `load_from_disk` reads: the numbers and the saved kernel.

        Raises ValueError for a result without a kernel, TypeError for a configuration that JSON cannot carry.
        """
        if self.kernel is None:
            raise ValueError("there is no kernel to save")
        config = json.dumps(self.config)
        times = json.dumps({"latency": self.latency, "ref_latency": self.ref_latency})
        folder = Path(path)
        self.kernel.save(folder / "kernel")
        (folder / _CONFIG_FILE).write_text(config, encoding="utf-8")
        (folder / _TIMES_FILE).write_text(times, encoding="utf-8")
        if verbose:
            logger.info("saved the tuning result to %s", folder)

    @classmethod
    def load_from_disk(
        cls, path: str | os.PathLike[str], compile_args: CompileArgs | None = None
    ) -> AutotuneResult:
        """What `save_to_disk` wrote; `func` is None, for a saved kernel has no tile function.

        compile_args is accepted and changes nothing: the kernel is loaded, not compiled. Raises
        FileNotFoundError if there is none, ValueError if it is damaged.
        """
        config = json.loads((Path(path) / _CONFIG_FILE).read_text(encoding="utf-8"))
        times = json.loads((Path(path) / _TIMES_FILE).read_text(encoding="utf-8"))
        kernel = load(Path(path) / "kernel")
        return _result(kernel, results.StoredResult(config, times["latency"], times["ref_latency"]))


class AutoTuner:
    """Searches the configurations of a kernel function or factory.

    `AutoTuner.from_kernel(kernel, configs).set_compile_args(...).set_profile_args(...).run()`

    jit_compile: if set, what makes the kernel of a configuration in place of the compiler. It is called with
    the configuration's entries by name and with `__pass_configs__`, those that it carries or None.
    jit_elaborate: if set, what makes the tile function of a configuration, called likewise; it is compiled
    under the compile arguments.
    """

    jit_compile: Callable[..., JITKernel] | None = None
    jit_elaborate: Callable[..., Any] | None = None

    def __init__(self, fn: Callable[..., Any], configs: Configurations) -> None:
        self.fn = fn
        self.configs = configs
        self.profiling = ProfileArgs()
        self.compile_args = CompileArgs()
        self._options: CompileOptions | None = None
        self._args: tuple[Any, ...] = ()
        self._kwargs: dict[str, Any] = {}
        self._inputs: Sequence[Any] | None = None
        self._not_in_key: frozenset[str] = frozenset()

    @staticmethod
    def from_kernel(kernel: Callable[..., Any], configs: Configurations) -> AutoTuner:
        """A tuner for `kernel`: a function under `@tilelang.jit`, or one that returns a `@T.prim_func`."""
        return AutoTuner(kernel, configs)

    def set_compile_args(
        self,
        out_idx: int | Sequence[int] | None = None,
        target: Any = None,
        execution_backend: str | None = None,
        target_host: Any = None,
        verbose: bool | None = None,
        pass_configs: Mapping[Any, Any] | None = None,
    ) -> AutoTuner:
        """How the kernels are compiled; arguments as in `tilelang.compile`."""
        self.compile_args = CompileArgs(
            out_idx, execution_backend, target, target_host, verbose, pass_configs
        )
        self._options = self.compile_args.options()
        return self

    def set_profile_args(
        self,
        warmup: float | None = None,
        rep: float | None = None,
        timeout: float | None = None,
        **changes: Any,
    ) -> AutoTuner:
        """How the kernels are checked and timed: fields of `ProfileArgs`; what is left out stays."""
        times = {"warmup": warmup, "rep": rep, "timeout": timeout}
        changes |= {name: value for name, value in times.items() if value is not None}
        self.profiling = replace(self.profiling, **changes)
        return self

    @property
    def profile_args(self) -> ProfileArgs:
        """How the kernels are checked and timed, as `profiling`."""
        return self.profiling

    @property
    def cache_dir(self) -> Path:
        """The folder that results are remembered in."""
        return results.folder()

    def generate_cache_key(
        self, parameters: Mapping[str, Any], extra_parameters: Mapping[str, Any]
    ) -> str | None:
        """The name under which the result for these arguments is remembered; None if they have no stable
        text.
        """
        configs = expand(self.configs, self._args, self._kwargs)
        return self._key(configs, self.profiling, {**parameters, **extra_parameters})

    def set_kernel_parameters(
        self,
        k_parameters: tuple[Sequence[Any], Any] = ((), ()),
        f_parameters: Mapping[str, Any] | None = None,
        do_not_specialize: Sequence[str] = (),
    ) -> AutoTuner:
        """The arguments that every configuration shares: those by position, and those by name with their
        values, as a mapping or as pairs.

        f_parameters: the parameters of the function, which are read from it. do_not_specialize: names among
        the arguments that make no difference to which configuration is the fastest.
        """
        args, kwargs = k_parameters
        self._args, self._kwargs = tuple(args), dict(kwargs)
        self._not_in_key = frozenset(do_not_specialize)
        return self

    def set_inputs(self, tensors: Sequence[Any] | None) -> AutoTuner:
        """The tensors to check and time with, over those of `set_autotune_inputs` and `supply_prog`."""
        self._inputs = tensors
        return self

    def run(
        self,
        warmup: float | None = None,
        rep: float | None = None,
        timeout: float | None = None,
        use_pipeline: bool = False,
        enable_grouped_compile: bool = False,
        group_compile_size: int = 2,
        benchmark_devices: Sequence[int] | None = None,
        benchmark_multi_gpu: bool = False,
        early_stop: bool | None = None,
        early_stop_factor: float | None = None,
    ) -> AutotuneResult:
        """Search. Milliseconds; `timeout` (of one configuration) in seconds; None keeps the profile's value.

        The arguments about pipelining, groups and devices are accepted and change nothing: kernels are
        compiled side by side, and timed one after the other on the current device.
        Raises what the author's factory raises, ValueError for an entry of a configuration that it has no
        parameter for, RuntimeError that says of every configuration why it failed if none is left.
        """
        asked = {
            "warmup": warmup,
            "rep": rep,
            "timeout": timeout,
            "early_stop": early_stop,
            "early_stop_factor": early_stop_factor,
        }
        profiling = replace(self.profiling, **{k: v for k, v in asked.items() if v is not None})
        configs = expand(self.configs, self._args, self._kwargs)
        self._refuse_unused(configs)
        key = self._key(configs, profiling) if results.is_enabled() else None
        stored = results.find(key) if key else None
        if stored is not None and stored.config in configs:
            logger.info("the fastest configuration is known: %s", stored.config)
            return _result(self.compile(stored.config), stored)
        found = self._search(configs, profiling)
        if key:
            results.keep(key, results.StoredResult(found.config, found.latency, found.ref_latency))
        return found

    def __call__(self) -> AutotuneResult:
        """Search, as `run()` does."""
        return self.run()

    def compile(self, config: Mapping[str, Any]) -> JITKernel:
        """The kernel of one configuration."""
        return self._start(config)()

    def _start(self, config: Mapping[str, Any]) -> Callable[[], JITKernel]:
        """Call the author's factory now; what it made is compiled when the answer is called."""
        values = dict(config)
        passes = values.pop(_PASS_CONFIGS, None)
        if self.jit_compile is not None:
            return functools.partial(self.jit_compile, **values, __pass_configs__=passes)
        kwargs = {**self._kwargs, **values}
        options = (self._options or CompileOptions.read()).with_pass_configs(passes)
        if self.jit_elaborate is not None:
            made = self.jit_elaborate(**values, __pass_configs__=passes)
            return functools.partial(compile_kernel, made, options, self.fn)
        if isinstance(self.fn, JITFunction):
            return self.fn.under(self._options, passes).start(*self._args, **kwargs)
        return functools.partial(compile_kernel, self.fn(*self._args, **kwargs), options, self.fn)

    def _refuse_unused(self, configs: Sequence[Configuration]) -> None:
        """Raise ValueError for keys of a configuration that are no parameters. Sizes of an eager kernel may
        be given by name too, so its keys are not looked at.
        """
        jitted = self.fn if isinstance(self.fn, JITFunction) else None
        parameters = inspect.signature(jitted.function if jitted else self.fn).parameters
        by_hand = self.jit_compile is not None or self.jit_elaborate is not None
        if by_hand or any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            return
        unused = {key for config in configs for key in config} - {*parameters, _PASS_CONFIGS}
        if unused and not (jitted and jitted.mode_for(*self._args, **self._kwargs) == "eager"):
            owner = getattr(self.fn, "__name__", "the function")
            raise ValueError(f"Unused keys in config: {unused}; {owner} takes {', '.join(parameters)}")

    def _search(self, configs: list[Configuration], profiling: ProfileArgs) -> AutotuneResult:
        kernels = self._compile_all(configs)
        bench = Bench(profiling, self._inputs if self._inputs is not None else get_autotune_inputs())
        best: tuple[float, Configuration, JITKernel] | None = None
        failures: list[str] = []
        for config, kernel in zip(configs, kernels, strict=True):
            if isinstance(kernel, Exception):
                failures.append(f"{config}: {_first_line(kernel)}")
                continue
            try:
                latency = bench.run(kernel)
            except Exception as error:  # noqa: BLE001 - whatever one configuration does, the others are tried
                failures.append(f"{config}: {_first_line(error)}")
                logger.warning("configuration %s failed: %s", config, _first_line(error))
                continue
            logger.info("configuration %s: %.4f ms", config, latency)
            if best is None or latency < best[0]:
                best = (latency, config, kernel)
        if best is None:
            listed = "\n  ".join(failures)
            raise RuntimeError(
                "Auto-tuning failed: No configuration successfully compiled and passed its checks, "
                f"none of {len(configs)} configurations ran:\n  {listed}"
            )
        latency, config, kernel = best
        return _result(kernel, results.StoredResult(config, latency, bench.reference_ms))

    def _compile_all(self, configs: list[Configuration]) -> list[JITKernel | Exception]:
        """The kernels, or why there is none. Raises what the author's own code raises: a factory that fails
        says nothing about a configuration.
        """

        def started(config: Configuration) -> Callable[[], JITKernel] | KernelError:
            try:
                return self._start(config)
            except KernelError as error:  # a @T.prim_func is checked where it stands
                return error

        def one(start: Callable[[], JITKernel] | KernelError) -> JITKernel | Exception:
            if isinstance(start, KernelError):
                return start
            try:
                return start()
            except Exception as error:  # noqa: BLE001 - said in the summary, or by the log
                logger.info("a configuration does not compile: %s", _first_line(error))
                return error

        starts = [started(config) for config in configs]
        with ThreadPoolExecutor(_workers(len(configs))) as pool:
            return list(pool.map(one, starts))

    def _key(
        self, configs: list[Configuration], profiling: ProfileArgs, more: Mapping[str, Any] | None = None
    ) -> str | None:
        function = self.fn.function if isinstance(self.fn, JITFunction) else self.fn
        own = self.fn.options if isinstance(self.fn, JITFunction) else None
        options = (self._options or own or CompileOptions.read()).resolved()
        extra = {
            "target": options.target.name if options.target else "",
            "pass_configs": options.pass_configs,
            "flags": options.compile_flags,
            "out_idx": options.out_idx,
            "reference": profiling.ref_prog,
            "check": not profiling.skip_check,
            **(more or {}),
        }
        kwargs = {k: v for k, v in self._kwargs.items() if k not in self._not_in_key}
        return results.search_key(function, configs, self._args, kwargs, extra)


def _result(kernel: JITKernel, stored: results.StoredResult) -> AutotuneResult:
    kernel.update_tuner_result(stored.latency, stored.config, stored.ref_latency)
    source, func = kernel.get_kernel_source(), kernel.prim_func
    return AutotuneResult(stored.latency, stored.config, stored.ref_latency, source, func, kernel)


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else 'no message'}"


def get_available_cpu_count() -> int:
    """The processors that this process may run on."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux has it
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def _workers(configs: int) -> int:
    """How many configurations compile at once; the share of processors and their number can be limited."""
    share = float(os.environ.get("TILELANG_AUTO_TUNING_CPU_UTILITIES", "0.9"))
    count = int(os.environ.get("TILELANG_AUTO_TUNING_CPU_COUNTS", "-1"))
    most = int(os.environ.get("TILELANG_AUTO_TUNING_MAX_CPU_COUNT", "-1"))
    if count <= 0:
        count = max(1, int(get_available_cpu_count() * share))
    if most > 0:
        count = min(count, most)
    return max(1, min(count, configs))


_DECORATED = {"AutoTuneImpl": "AutoTuneImpl", "autotune": "autotune"}


def __getattr__(name: str) -> Any:
    """`autotune` and `AutoTuneImpl`, which kernels import from here too; their module stands on this one."""
    if name not in _DECORATED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tilelang.autotuner import decorator

    return getattr(decorator, _DECORATED[name])
