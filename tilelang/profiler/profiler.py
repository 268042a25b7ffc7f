"""Measures one kernel on made-up inputs and compares it with a reference function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, overload

from tilelang.jit.kernel_param import KernelParam
from tilelang.profiler.bench import Backend, ReturnMode, do_bench
from tilelang.profiler.supply import TensorSupplyType, input_for, inputs_for
from tilelang.runtime.artifact import Artifact
from tilelang.runtime.plan import ScalarParam


class Kernel(Protocol):
    """What is measured: a compiled kernel that can be called, whoever made it."""

    @property
    def artifact(self) -> Artifact:
        """The compiled form; its plan says what inputs the kernel takes."""
        ...

    def __call__(self, *args: Any) -> Any:
        """Launch on the inputs in call order."""
        ...


class Profiler:
    """What `kernel.get_profiler()` returns.

    params: the kernel's parameters in call order, outputs included. result_idx: which of them the call
    returns; None for none. adapter: the kernel, or its adapter; `with_default_adapter` gives it later.
    """

    def __init__(
        self,
        params: Sequence[KernelParam],
        result_idx: int | Sequence[int] | None,
        supply_type: TensorSupplyType = TensorSupplyType.Auto,
        adapter: Kernel | None = None,
    ) -> None:
        self.params = list(params)
        chosen = [result_idx] if isinstance(result_idx, int) else list(result_idx or ())
        self.result_idx = [index % len(self.params) for index in chosen]
        self.supply_type = supply_type
        self._kernel = adapter

    @property
    def kernel(self) -> Kernel:
        """What is measured. Raises ValueError if nothing was given."""
        if self._kernel is None:
            raise ValueError(
                "the profiler has no kernel: give it one by with_default_adapter(kernel.adapter)"
            )
        return self._kernel

    @property
    def adapter(self) -> Any:
        """What carries out the launches: the kernel's adapter, or what took its place."""
        return getattr(self.kernel, "adapter", self.kernel)

    @property
    def supply(self) -> Callable[[Any], Any]:
        """Makes the tensor for one of `params`, whose sizes are numbers."""
        return lambda param: input_for(param.record, self.supply_type)

    def with_default_adapter(self, adapter: Kernel) -> Profiler:
        """Measure another kernel, or an adapter, from now on. Returns the profiler."""
        self._kernel = adapter
        return self

    def _get_inputs(
        self, with_output: bool = False, dynamic_symbolic_constraints: Mapping[str, int] | None = None
    ) -> list[Any]:
        """`inputs()` by the name that kernels call; with_output: tensors for the outputs among them."""
        plan = self.kernel.artifact.plan
        if with_output:
            plan = replace(plan, outputs=())
        return inputs_for(plan, self.supply_type, dynamic_symbolic_constraints)

    def _get_params(self, with_output: bool = False) -> list[KernelParam]:
        """The parameters of the inputs, by the name that kernels call; with_output: those of outputs too."""
        return [p for i, p in enumerate(self.params) if with_output or i not in self.result_idx]

    @property
    def func(self) -> Callable[..., Any]:
        """What is measured: the kernel itself."""
        return self.kernel

    def __call__(self, *args: Any) -> Any:
        """One call of the kernel on `args`."""
        return self.kernel(*args)

    def inputs(self, dynamic_symbolic_constraints: Mapping[str, int] | None = None) -> list[Any]:
        """Fresh, seeded inputs for the kernel."""
        return inputs_for(self.kernel.artifact.plan, self.supply_type, dynamic_symbolic_constraints)

    def run_once(self, func: Callable[..., Any] | None = None) -> Any:
        """One call of the kernel (or of `func`) on fresh inputs."""
        return (func or self.kernel)(*self.inputs())

    @overload
    def do_bench(
        self,
        func: Callable[..., Any] | None = None,
        warmup: float = 25,
        rep: float = 100,
        n_warmup: int = 0,
        n_repeat: int = 0,
        input_tensors: Sequence[Any] | None = None,
        backend: Backend = "auto",
        quantiles: None = None,
        return_mode: ReturnMode = "mean",
        dynamic_symbolic_constraints: Mapping[str, int] | None = None,
        device: Any = None,
        early_stop_baseline: float | None = None,
    ) -> float: ...
    @overload
    def do_bench(
        self,
        func: Callable[..., Any] | None = None,
        warmup: float = 25,
        rep: float = 100,
        n_warmup: int = 0,
        n_repeat: int = 0,
        input_tensors: Sequence[Any] | None = None,
        backend: Backend = "auto",
        *,
        quantiles: Sequence[float],
        return_mode: ReturnMode = "mean",
        dynamic_symbolic_constraints: Mapping[str, int] | None = None,
        device: Any = None,
        early_stop_baseline: float | None = None,
    ) -> list[float]: ...
    def do_bench(
        self,
        func: Callable[..., Any] | None = None,
        warmup: float = 25,
        rep: float = 100,
        n_warmup: int = 0,
        n_repeat: int = 0,
        input_tensors: Sequence[Any] | None = None,
        backend: Backend = "auto",
        quantiles: Sequence[float] | None = None,
        return_mode: ReturnMode = "mean",
        dynamic_symbolic_constraints: Mapping[str, int] | None = None,
        device: Any = None,
        early_stop_baseline: float | None = None,
    ) -> float | list[float]:
        """Milliseconds of the kernel, or of `func` on the same inputs. See `tilelang.profiler.do_bench`."""
        given = input_tensors is not None
        tensors = list(input_tensors) if given else self.inputs(dynamic_symbolic_constraints)
        target = func or self.kernel
        if self.kernel.artifact.plan.kind == "cpu" and backend in ("auto", "event", "cupti"):
            backend = "wall"
        return do_bench(
            lambda: target(*tensors),
            warmup,
            rep,
            n_warmup,
            n_repeat,
            quantiles,
            backend=backend,
            return_mode=return_mode,
            device=device,
            early_stop_baseline=early_stop_baseline,
        )

    def assert_allclose(
        self,
        reference_program: Callable[..., Any],
        input_tensors: Sequence[Any] | None = None,
        atol: float = 1e-2,
        rtol: float = 1e-2,
        max_mismatched_ratio: float = 0.01,
        dynamic_symbolic_constraints: Mapping[str, int] | None = None,
    ) -> None:
        """Compare the kernel with `reference_program` on the same inputs.

        A kernel without outputs is compared on all its tensors after the call. Raises AssertionError that
        says how many elements differ, by how much and where first, if more than `max_mismatched_ratio` of
        them do.
        """
        found, expected = self._both(reference_program, input_tensors, dynamic_symbolic_constraints)
        for name, got, want in zip(self._result_names(), found, expected, strict=True):
            _compare(name, got, want, atol, rtol, max_mismatched_ratio)

    def manual_assert_close(
        self,
        reference_program: Callable[..., Any],
        input_tensors: Sequence[Any] | None = None,
        manual_check_prog: Callable[[Any, Any], None] | None = None,
        dynamic_symbolic_constraints: Mapping[str, int] | None = None,
    ) -> None:
        """Hand both results to `manual_check_prog(kernel's, reference's)`, which raises if not content. Each
        is a list, also of one tensor.
        """
        if manual_check_prog is None:
            raise ValueError("manual_assert_close needs manual_check_prog")
        found, expected = self._both(reference_program, input_tensors, dynamic_symbolic_constraints)
        manual_check_prog(found, expected)

    def assert_consistent(self, repeat: int = 10) -> None:
        """Run several times on the same inputs. Raises AssertionError if a bit of a result changes."""
        import torch

        inputs = self.inputs()
        first = self._results(self.kernel, inputs)
        for run in range(1, repeat):
            for name, a, b in zip(
                self._result_names(), first, self._results(self.kernel, inputs), strict=True
            ):
                same = torch.equal(a.view(torch.uint8), b.view(torch.uint8))
                assert same, f"{name} of run {run + 1} differs from run 1 on the same inputs"

    def _both(
        self, reference: Callable[..., Any], tensors: Sequence[Any] | None, sizes: Mapping[str, int] | None
    ) -> tuple[list[Any], list[Any]]:
        inputs = list(tensors) if tensors is not None else self.inputs(sizes)
        copies = [t.clone() if hasattr(t, "clone") else t for t in inputs]
        found, expected = self._results(self.kernel, inputs), self._results(reference, copies)
        if len(found) != len(expected):
            outputs = len(self.kernel.artifact.plan.outputs)
            gives = f"returns {outputs} tensors" if outputs else f"writes to its {len(found)} tensors"
            raise AssertionError(
                f"the kernel {gives}, the reference gives {len(expected)}: "
                + (
                    "it should return as many"
                    if outputs
                    else "it should write to its arguments too, or out_idx should name the results"
                )
            )
        return found, expected

    def _results(self, function: Callable[..., Any], inputs: Sequence[Any]) -> list[Any]:
        """What a call returns; the tensors it was given if it returns nothing."""
        returned = function(*inputs)
        if returned is None:
            return [t for t in inputs if hasattr(t, "dtype")]
        return list(returned) if isinstance(returned, tuple | list) else [returned]

    def _result_names(self) -> list[str]:
        plan = self.kernel.artifact.plan
        chosen = plan.outputs or range(len(plan.params) - plan.hidden)
        return [plan.params[i].name for i in chosen if not isinstance(plan.params[i], ScalarParam)]


def _compare(name: str, got: Any, want: Any, atol: float, rtol: float, allowed: float) -> None:
    """Raise AssertionError in words unless `got` is close to `want`. NaN equals NaN."""
    import torch

    assert got.shape == want.shape, f"{name} has shape {tuple(got.shape)}, the reference {tuple(want.shape)}"
    found, expected = got.detach().to(torch.float64), want.detach().to(got.device).to(torch.float64)
    wrong = ~torch.isclose(found, expected, rtol=rtol, atol=atol, equal_nan=True)
    count = int(wrong.sum())
    if count <= allowed * wrong.numel():
        return
    where = tuple(int(i) for i in wrong.nonzero()[0])
    largest = (found - expected).abs().nan_to_num(float("inf")).max().item()
    raise AssertionError(
        f"Too many mismatched elements: {name} differs from the reference in {count} of {wrong.numel()} "
        f"elements (rtol {rtol}, atol {atol}): largest difference {largest:.4g}, "
        f"first at {where}: found {found[where].item():.6g}, expected {expected[where].item():.6g}"
    )
