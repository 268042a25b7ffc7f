"""The launch: the grid of blocks, the threads of a block, and how block numbers map to tiles."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, overload

from tilelang.language.values import OutsideKernelError, Scalar


@overload
def Kernel(
    x: Any, /, *, threads: Any = None, prelude: str | None = None, cluster_dims: Any = None
) -> AbstractContextManager[Scalar]: ...
@overload
def Kernel(
    x: Any, y: Any, /, *, threads: Any = None, prelude: str | None = None, cluster_dims: Any = None
) -> AbstractContextManager[tuple[Scalar, Scalar]]: ...
@overload
def Kernel(
    x: Any, y: Any, z: Any, /, *, threads: Any = None, prelude: str | None = None, cluster_dims: Any = None
) -> AbstractContextManager[tuple[Scalar, Scalar, Scalar]]: ...
def Kernel(*blocks: Any, threads: Any = None, prelude: str | None = None, cluster_dims: Any = None) -> Any:
    """Launch the body once per block: `with T.Kernel(T.ceildiv(N, 128), T.ceildiv(M, 128), threads=128) as
    (bx, by):`

    blocks: one to three extents of the grid, x first; numbers or sizes.
    threads: of a block, one number or up to three; 128 if not given. Yields the block variable, or a tuple
    of them, from 0 up. prelude: as T.import_source. cluster_dims: see T.ClusterKernel.
    """
    raise OutsideKernelError("Kernel")


def ClusterKernel(*blocks: Any, cluster_dims: Any, threads: Any = None, prelude: str | None = None) -> Any:
    """`T.Kernel` whose blocks run in clusters of `cluster_dims` (one to three numbers, x first).

    From sm_90 on. The grid must be a multiple of the cluster along each dimension.
    """
    raise OutsideKernelError("ClusterKernel")


def CUDASourceCodeKernel(
    *blocks: Any,
    threads: Any = None,
    source_code_or_path: Any,
    entry_name: str = "main_kernel",
    cluster_dims: Any = None,
    prelude: str | None = None,
) -> None:
    """Launch a kernel written by hand in CUDA C++; a statement, which stands alone in its function.

    blocks, threads, cluster_dims, prelude: as T.Kernel. source_code_or_path: the text, or the path of a file
    that holds it. entry_name: the `__global__` function to launch; where the text has only one, that one. It
    gets the parameters in order (tensors as pointers), then the run-time sizes of their shapes in order of
    appearance.
    """
    raise OutsideKernelError("CUDASourceCodeKernel")


def ws(*warp_group_idx: Any) -> AbstractContextManager[None]:
    """Code for some warp groups only: `with T.ws(0):`, `with T.ws(1, 2):`. A group is 128 threads, -1 all."""
    raise OutsideKernelError("ws")


def WarpSpecialize(*warp_group_idx: Any) -> AbstractContextManager[None]:
    """The same as `T.ws`."""
    raise OutsideKernelError("WarpSpecialize")


def get_thread_binding(dim: int = 0) -> Scalar:
    """The number of the thread in its block along `dim` (0 is x), for code that deals with threads by
    itself.
    """
    raise OutsideKernelError("get_thread_binding")
