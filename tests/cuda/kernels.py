"""Kernels for the tests of the CUDA target: lowered from text or from `examples/`, run in the emulator."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tests.emulator.block import Statistics, run
from tilelang.arch.target import parse_target
from tilelang.frontend.environments.specialise import trace_static
from tilelang.frontend.environments.static_module import StaticModule
from tilelang.jit.compiling import prim_func_of
from tilelang.targets.driver import lower
from tilelang.targets.lowered import LoweredKernel

EXAMPLES = Path(__file__).parents[2] / "examples"
HEAD = "import tilelang\nimport tilelang.language as T\n\n"


def lower_text(text: str, target: str = "cuda:sm_80", **choice: object) -> LoweredKernel:
    """The first kernel of a module's text under a specialisation."""
    module = StaticModule("kernel.py", text if text.startswith(("import", '"""')) else HEAD + text)
    assert not module.problems, module.problems
    chosen = parse_target(target)
    kernel = module.kernels[0]
    program = trace_static(module, kernel, {k: str(v) for k, v in choice.items()})
    return lower(prim_func_of(program, chosen, text), chosen)


def lower_example(name: str, target: str = "cuda:sm_80", **choice: object) -> LoweredKernel:
    """The first kernel of `examples/<name>.py`."""
    return lower_text((EXAMPLES / f"{name}.py").read_text(), target, **choice)


def run_text(
    text: str, tensors: Mapping[str, np.ndarray], sizes: Mapping[str, int] | None = None, **choice: object
) -> Statistics:
    """Lower a kernel and run it on `tensors`."""
    return run(lower_text(text, **choice), tensors, sizes)


def random(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Normal numbers, or small integers."""
    from tests.emulator.memory import numpy_dtype

    if dtype.startswith(("int", "uint")):
        return rng.integers(0 if dtype[0] == "u" else -8, 8, shape).astype(dtype)
    return rng.normal(size=shape).astype(numpy_dtype(dtype))
