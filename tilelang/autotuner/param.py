"""What tuning is told and what it returns, by the names that kernels import."""

from tilelang.autotuner.trial import Profiling as ProfileArgs
from tilelang.autotuner.tuner import AutotuneResult
from tilelang.jit.options import CompileOptions as CompileArgs

__all__ = ["AutotuneResult", "CompileArgs", "ProfileArgs"]
