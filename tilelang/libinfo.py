"""Where libraries of the package lie: it has none, its compiler is Python and tvm is a package of its own."""

from __future__ import annotations

TL_LIBS: tuple[str, ...] = ()  # folders with libraries of the package


def find_lib_path(name: str, py_ext: bool = False) -> str:
    """Raises RuntimeError: there is no library to be found, whichever `name` it has."""
    raise RuntimeError(
        f"Cannot find libraries: lib{name}. This package has no library of its own; tvm's is found by "
        "tvm.base, and kernels are compiled in process"
    )
