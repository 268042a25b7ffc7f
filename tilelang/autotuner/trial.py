"""One configuration on trial: its kernel is compared with the reference, then timed, within a time limit."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilelang.jit.kernel import JITKernel
from tilelang.profiler import Profiler, TensorSupplyType
from tilelang.profiler.bench import Backend


class TrialTimeout(Exception):
    """A kernel did not finish its trial in time."""


@dataclass(frozen=True)
class ProfileArgs:
    """How configurations are checked and timed. Times in milliseconds, `timeout` in seconds.

    supply_prog: makes the inputs from the kernel's input parameters; ref_prog: what to compare with and to
    time as the reference; manual_check_prog is given the list of the kernel's results and that
    of the reference's, and raises if not content.
    cache_input_tensors: give every configuration the same tensors instead of fresh ones with the same values.
    """

    warmup: float = 25
    rep: float = 100
    timeout: float = 30
    backend: Backend = "auto"
    supply_type: TensorSupplyType = TensorSupplyType.Auto
    ref_prog: Callable[..., Any] | None = None
    supply_prog: Callable[..., Any] | None = None
    rtol: float = 1e-2
    atol: float = 1e-2
    max_mismatched_ratio: float = 0.01
    skip_check: bool = False
    manual_check_prog: Callable[[Any, Any], None] | None = None
    cache_input_tensors: bool = False
    early_stop: bool = False
    early_stop_factor: float = 2.0


@dataclass
class Bench:
    """Times kernels one after the other; remembers what they share: inputs, the reference, the best time."""

    profiling: ProfileArgs
    given: Sequence[Any] | None = None  # inputs that the author named; else they are made
    best: float = float("inf")
    reference_ms: float | None = None
    _shared: list[Any] | None = field(default=None, init=False)

    def run(self, kernel: JITKernel) -> float:
        """Milliseconds of `kernel`. Raises AssertionError for a wrong result, TrialTimeout for a slow one.

        A kernel that never ends cannot be stopped from inside its process: it is left running and its
        configuration dropped.
        """
        answers: queue.Queue[float | BaseException] = queue.Queue()

        def body() -> None:
            try:
                answers.put(self._measure(kernel))
            except BaseException as error:  # noqa: BLE001 - handed to the caller's thread, which raises it
                answers.put(error)

        threading.Thread(target=body, daemon=True, name="tilelang-trial").start()
        try:
            answer = answers.get(timeout=self.profiling.timeout)
        except queue.Empty:
            raise TrialTimeout(f"no result within {self.profiling.timeout:g} s") from None
        if isinstance(answer, BaseException):
            raise answer
        self.best = min(self.best, answer)
        return answer

    def _measure(self, kernel: JITKernel) -> float:
        how = self.profiling
        profiler = kernel.get_profiler(how.supply_type)
        inputs = self._inputs(kernel, profiler)
        if how.ref_prog is not None and not how.skip_check:
            if how.manual_check_prog is not None:
                profiler.manual_assert_close(how.ref_prog, inputs, how.manual_check_prog)
            else:
                profiler.assert_allclose(how.ref_prog, inputs, how.atol, how.rtol, how.max_mismatched_ratio)
        if how.ref_prog is not None and self.reference_ms is None:
            self.reference_ms = self._time(profiler, how.ref_prog, inputs, None)
        limit = self.best * how.early_stop_factor if how.early_stop and self.best < float("inf") else None
        return self._time(profiler, kernel, inputs, limit)

    def _time(
        self, profiler: Profiler, function: Callable[..., Any], inputs: Sequence[Any], limit: float | None
    ) -> float:
        how = self.profiling
        found = profiler.do_bench(
            function,
            warmup=how.warmup,
            rep=how.rep,
            input_tensors=inputs,
            backend=how.backend,
            early_stop_baseline=limit,
        )
        assert isinstance(found, float)
        return found

    def _inputs(self, kernel: JITKernel, profiler: Profiler) -> list[Any]:
        if self.given is not None:
            return list(self.given)
        if self._shared is not None:
            return self._shared
        if self.profiling.supply_prog is not None:
            made = list(self.profiling.supply_prog(_input_params(kernel)))
        else:
            made = profiler.inputs()
        if self.profiling.cache_input_tensors:
            self._shared = made
        return made


def _input_params(kernel: JITKernel) -> list[Any]:
    outputs = kernel.out_idx
    return [p for i, p in enumerate(kernel.params) if i not in outputs]
