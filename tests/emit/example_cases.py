"""The examples as cases for source-only targets: sizes that tiles divide and not, numpy references."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.emit.host_run import random_array
from tilelang.arch.target import parse_target
from tilelang.frontend.environments.specialise import trace_static
from tilelang.frontend.environments.static_module import StaticModule
from tilelang.jit.compiling import prim_func_of
from tilelang.runtime.plan import TensorParam
from tilelang.runtime.sizes import compile_size
from tilelang.targets import driver
from tilelang.targets.lowered import LoweredKernel

EXAMPLES = Path(__file__).parents[2] / "examples"


@dataclass(frozen=True)
class Case:
    """One example at one size. `choice` fixes parameters; `sizes` are what the tensors' symbols stand for."""

    file: str
    kernel: str
    sizes: Mapping[str, int]
    reference: Callable[..., np.ndarray]  # of the inputs in float64
    choice: Mapping[str, str] = field(default_factory=dict)
    tolerance: float = 1e-5

    @property
    def name(self) -> str:
        values = {**self.sizes, **self.choice}
        return "-".join([self.kernel, *(f"{k}{v}" for k, v in values.items())]).replace("'", "")

    def lower(self, target: str) -> LoweredKernel:
        """The kernel for `target`, from the file's text."""
        path = EXAMPLES / self.file
        text = path.read_text()
        module = StaticModule(str(path), text)
        program = trace_static(module, module.kernel(self.kernel), self.choice)
        chosen = parse_target(target)
        return driver.lower(prim_func_of(program, chosen, text), chosen)

    def arguments(self, lowered: LoweredKernel) -> tuple[list[Any], list[np.ndarray]]:
        """(what the device function takes, the inputs): random inputs, an output no kernel leaves."""
        plan = lowered.plan
        by_name: dict[str, Any] = dict(self.sizes)
        inputs = []
        for k, p in enumerate(plan.params):
            assert isinstance(p, TensorParam)
            shape = tuple(compile_size(n).evaluate(self.sizes) for n in p.shape)
            array = random_array(shape, p.dtype, k)
            if k == len(plan.params) - 1:  # the output of every example
                array[...] = 77
            else:
                inputs.append(array)
            by_name[p.name] = array
        return [by_name[name] for name in plan.arguments], inputs

    def grid(self, lowered: LoweredKernel) -> tuple[int, ...]:
        return tuple(compile_size(n).evaluate(self.sizes) for n in lowered.plan.grid)

    def check(self, lowered: LoweredKernel, run: Callable[..., None], folder: Path) -> None:
        """Run by `run(text, name, grid, threads, arguments, folder)` and compare with the reference."""
        arguments, inputs = self.arguments(lowered)
        threads = int(np.prod(lowered.plan.threads))
        run(lowered.source.text, lowered.plan.entry, self.grid(lowered), threads, arguments, folder)
        output = dict(zip(lowered.plan.arguments, arguments, strict=True))[lowered.plan.params[-1].name]
        expected = self.reference(*(x.astype(np.float64) for x in inputs))
        scale = np.abs(expected).max() + 1
        np.testing.assert_allclose(output.astype(np.float64), expected, rtol=0, atol=self.tolerance * scale)


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def _rms_norm(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-6) * w


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a @ b


HALF = 1e-3  # one rounding to float16, relative to the largest result

CASES = [
    Case("vector_add.py", "add", {"N": 1024}, np.add),
    Case("vector_add.py", "add", {"N": 1001}, np.add),
    Case("vector_add.py", "add_lazy", {}, np.add, {"N": "1000"}),
    Case("dynamic_vector_add.py", "add_any", {"N": 777}, np.add),
    Case(
        "elementwise_2d.py",
        "silu_add",
        {"M": 64, "N": 128},
        lambda a, b: a / (1 + np.exp(-a)) + b,
        tolerance=HALF,
    ),
    Case(
        "elementwise_2d.py",
        "silu_add",
        {"M": 33, "N": 130},
        lambda a, b: a / (1 + np.exp(-a)) + b,
        tolerance=HALF,
    ),
    Case("softmax.py", "softmax", {"M": 8, "N": 1024}, _softmax),
    Case("softmax.py", "softmax", {"M": 5, "N": 700}, _softmax),
    Case("rms_norm.py", "rms_norm", {}, _rms_norm, {"M": "8", "N": "1024"}, tolerance=HALF),
    Case("rms_norm.py", "rms_norm", {}, _rms_norm, {"M": "5", "N": "700"}, tolerance=HALF),
    Case(
        "gemm.py",
        "gemm",
        {},
        _product,
        {"M": "128", "N": "128", "K": "64", "transpose_B": "False"},
        tolerance=HALF,
    ),
    Case(
        "gemm.py",
        "gemm",
        {},
        _product,
        {"M": "100", "N": "72", "K": "40", "transpose_B": "False"},
        tolerance=HALF,
    ),
    Case(
        "gemm.py",
        "gemm",
        {},
        lambda a, b: a @ b.T,
        {
            "M": "64",
            "N": "128",
            "K": "64",
            "transpose_B": "True",
            "dtype": "'float32'",
            "out_dtype": "'float32'",
        },
    ),
    Case("gemm_dynamic_m.py", "gemm_any_m", {"M": 70}, _product, {"N": "128", "K": "64"}, tolerance=HALF),
    Case(
        "quickstart.py",
        "matmul_relu",
        {"M": 128, "N": 128, "K": 64},
        lambda a, b: np.maximum(a @ b, 0),
        tolerance=HALF,
    ),
    Case(
        "quickstart.py",
        "matmul_relu",
        {"M": 100, "N": 72, "K": 40},
        lambda a, b: np.maximum(a @ b, 0),
        tolerance=HALF,
    ),
]

# One size of each kernel, for what does not depend on sizes.
KERNELS = list({(c.kernel, c.choice.get("dtype")): c for c in CASES}.values())
