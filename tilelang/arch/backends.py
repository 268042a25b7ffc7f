"""The execution backends that the language names for each kind of target; all mean one runtime."""

from __future__ import annotations

# Per kind its own choice first.
BACKENDS = {
    "cuda": ("tvm_ffi", "nvrtc", "cython"),
    "hip": ("tvm_ffi", "cython"),
    "metal": ("torch", "tvm_ffi"),
    "cpu": ("tvm_ffi", "cython"),
}
KNOWN_BACKENDS = ("auto", *sorted({name for names in BACKENDS.values() for name in names}))
