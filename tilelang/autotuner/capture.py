"""The tensors to tune with, by the name that kernels import them under."""

from tilelang.autotuner.inputs import AutotuneInputs, get_autotune_inputs, set_autotune_inputs

AutotuneInputsCapture = AutotuneInputs

__all__ = ["AutotuneInputs", "AutotuneInputsCapture", "get_autotune_inputs", "set_autotune_inputs"]
