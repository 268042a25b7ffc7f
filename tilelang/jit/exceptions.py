"""What calls outside a kernel raise, under the names that `except` clauses use."""

from tilelang.diagnostics.error import KernelError as EagerJITBuildError
from tilelang.language.values import OutsideKernelError as JITNoBuilderError

__all__ = ["EagerJITBuildError", "JITNoBuilderError"]
