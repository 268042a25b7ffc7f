"""Finds the fastest of several configurations of a kernel by compiling, checking and timing each."""

from __future__ import annotations

from tilelang.autotuner.decorator import AutoTuneImpl, autotune
from tilelang.autotuner.inputs import get_autotune_inputs, set_autotune_inputs
from tilelang.autotuner.trial import ProfileArgs
from tilelang.autotuner.tuner import AutoTuner, AutotuneResult

__all__ = [
    "AutoTuneImpl",
    "AutoTuner",
    "AutotuneResult",
    "ProfileArgs",
    "autotune",
    "get_autotune_inputs",
    "set_autotune_inputs",
]
