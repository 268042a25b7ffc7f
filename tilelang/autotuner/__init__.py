"""Finds the fastest of several configurations of a kernel by compiling, checking and timing each."""

from __future__ import annotations

from tilelang.autotuner.decorator import TunedFunction, autotune
from tilelang.autotuner.inputs import get_autotune_inputs, set_autotune_inputs
from tilelang.autotuner.trial import Profiling
from tilelang.autotuner.tuner import AutoTuner, AutotuneResult

AutoTuneImpl = TunedFunction  # the name that kernels import

__all__ = [
    "AutoTuneImpl",
    "AutoTuner",
    "AutotuneResult",
    "Profiling",
    "TunedFunction",
    "autotune",
    "get_autotune_inputs",
    "set_autotune_inputs",
]
