"""The exceptions of this package in one place, for `except` clauses.

KernelError: mistakes in a kernel, found before anything runs; `ArgumentError`: a call with tensors that do
not fit; `ToolchainError`: no compiler for the target, or one that refuses; `LoadError`: a saved kernel of
another machine; `TrialTimeout`: a configuration that tuning gave up on.
"""

from tilelang.autotuner.trial import TrialTimeout
from tilelang.diagnostics.error import KernelError
from tilelang.runtime.bind import ArgumentError
from tilelang.runtime.cpu import LoadError
from tilelang.targets.toolchain_error import ToolchainError

__all__ = ["ArgumentError", "KernelError", "LoadError", "ToolchainError", "TrialTimeout"]
