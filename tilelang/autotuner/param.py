"""What tuning is told and what it returns, by the names that kernels import."""

from tilelang.autotuner.compile_args import CompileArgs
from tilelang.autotuner.trial import ProfileArgs
from tilelang.autotuner.tuner import AutotuneResult

__all__ = ["AutotuneResult", "CompileArgs", "ProfileArgs"]
