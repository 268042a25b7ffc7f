"""The tensors to tune with, by the name that kernels import them under."""

from tilelang.autotuner.inputs import AutotuneInputsCapture, get_autotune_inputs, set_autotune_inputs

__all__ = ["AutotuneInputsCapture", "get_autotune_inputs", "set_autotune_inputs"]
