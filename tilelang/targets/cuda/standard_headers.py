"""Headers of C++'s standard library for NVRTC, which has none of its own.

What authors write in CUDA themselves (T.import_source, `-include`) is often meant for nvcc and begins with
`#include <cstdint>`. NVRTC finds such a header here, by name; it forwards to libcu++, the standard library
for device code that comes with CUDA's headers (libcu++ API reference, "Standard API": `cuda::std`).
"""

from __future__ import annotations

from collections.abc import Mapping

_SIZED = tuple(f"{sign}int{bits}_t" for bits in (8, 16, 32, 64) for sign in ("", "u"))
_INTEGERS = (*_SIZED, "intptr_t", "uintptr_t", "intmax_t", "uintmax_t")
_SIZES = ("size_t", "ptrdiff_t")
# The name of the header -> that of libcu++, and the names that C's variant puts outside of any namespace.
_HEADERS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "cstdint": ("cstdint", _INTEGERS),
    "stdint.h": ("cstdint", _INTEGERS),
    "cstddef": ("cstddef", _SIZES),
    "stddef.h": ("cstddef", _SIZES),
    "climits": ("climits", ()),
    "limits.h": ("climits", ()),
    "cfloat": ("cfloat", ()),
    "float.h": ("cfloat", ()),
    "cmath": ("cmath", ()),
    "cstring": ("cstring", ()),
    "string.h": ("cstring", ()),
    "cassert": ("cassert", ()),
    **{
        name: (name, ())
        for name in (
            *(
                "algorithm",
                "array",
                "bit",
                "complex",
                "concepts",
                "functional",
                "initializer_list",
                "iterator",
            ),
            *("limits", "numeric", "optional", "ratio", "tuple", "type_traits", "utility"),
        )
    },
}
_MACROS_ONLY = ("cassert", "cfloat", "climits")


def standard_headers() -> Mapping[str, str]:
    """The texts of the headers by the name that `#include <...>` gives."""
    return {name: _text(inner, outside) for name, (inner, outside) in _HEADERS.items()}


def _text(inner: str, outside: tuple[str, ...]) -> str:
    names = "".join(f"using cuda::std::{name};\n" for name in outside)
    space = "" if inner in _MACROS_ONLY else "namespace std { using namespace cuda::std; }\n"
    return f"#pragma once\n#include <cuda/std/{inner}>\n{space}{names}"
