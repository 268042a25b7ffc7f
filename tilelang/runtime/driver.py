"""The CUDA driver through ctypes: only the calls a launch needs, their errors in words."""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Any

# CUresult and CUfunction_attribute values, CUDA driver API reference.
_INVALID_CONTEXT = 201
_NOT_INITIALIZED = 3
_MAX_DYNAMIC_SHARED = 8
_HINTS = {
    1: "an argument of the launch is invalid, such as a grid of more than 65535 blocks in y or z",
    2: "the device is out of memory",
    100: "no CUDA device is visible",
    200: "the binary was not compiled for this device",
    209: "the binary was not compiled for this device",
    700: "the kernel read or wrote outside of a tensor; restart the process before using the GPU again",
    701: "the launch needs more registers or threads than one multiprocessor has",
    715: "the kernel ran an illegal instruction",
    716: "the kernel accessed a misaligned address",
    719: "the kernel failed while it ran; restart the process before using the GPU again",
}


class CudaError(RuntimeError):
    """The CUDA driver refused a call."""


class Driver:
    """The driver's library with typed entry points."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        # PyDLL keeps the interpreter lock: a launch is shorter than giving it up and taking it again.
        quick = ctypes.PyDLL(None, handle=library._handle)
        pointer, number = ctypes.c_void_p, ctypes.c_uint
        self.launch_kernel = quick.cuLaunchKernel
        self.launch_kernel.argtypes = [pointer, *[number] * 7, pointer, pointer, pointer]
        self._cooperative = quick.cuLaunchCooperativeKernel
        self._cooperative.argtypes = [pointer, *[number] * 7, pointer, pointer]
        self.encode_tensor_map = getattr(library, "cuTensorMapEncodeTiled", None)  # from CUDA 12.0 on
        self.check("cuInit", library.cuInit(0))

    def launch_cooperative(self, *arguments: Any) -> int:
        """`launch_kernel` for blocks that wait for each other; a grid that does not fit is refused."""
        return int(self._cooperative(*arguments[:-1]))

    def check(self, what: str, status: int) -> None:
        """Raise CudaError unless `status` says success."""
        if status:
            raise CudaError(f"{what} failed: {self.describe(status)}")

    def describe(self, status: int) -> str:
        name, text = ctypes.c_char_p(), ctypes.c_char_p()
        self._library.cuGetErrorName(status, ctypes.byref(name))
        self._library.cuGetErrorString(status, ctypes.byref(text))
        words = (text.value or b"unknown error").decode()
        code = (name.value or str(status).encode()).decode()
        hint = _HINTS.get(status)
        return f"{words} ({code})" + (f"; {hint}" if hint else "")

    def load(self, binary: bytes, entry: str) -> tuple[ctypes.c_void_p, ctypes.c_void_p]:
        """(library, kernel) of a cubin; both work in every context of a device that the binary fits."""
        library, kernel = ctypes.c_void_p(), ctypes.c_void_p()
        status = self._library.cuLibraryLoadData(ctypes.byref(library), binary, None, None, 0, None, None, 0)
        self.check(f"loading {entry}", status)
        self.check(
            f"finding {entry}",
            self._library.cuLibraryGetKernel(ctypes.byref(kernel), library, entry.encode()),
        )
        return library, kernel

    def allow_shared(self, kernel: ctypes.c_void_p, device: int, size: int, entry: str) -> None:
        """Let a kernel use `size` bytes of dynamic shared memory on a device."""
        status = self._library.cuKernelSetAttribute(_MAX_DYNAMIC_SHARED, size, kernel, device)
        if status:
            limit = self.attribute(97, device)  # MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
            raise CudaError(
                f"{entry} needs {size} bytes of shared memory, this device has {limit} per block: "
                f"use smaller tiles or fewer stages ({self.describe(status)})"
            )

    def attribute(self, attribute: int, device: int) -> int:
        """A CUdevice_attribute of a device."""
        value = ctypes.c_int()
        self.check(
            "cuDeviceGetAttribute", self._library.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
        )
        return value.value

    def make_current(self, device: int) -> None:
        """Make the device's primary context, the one torch uses, current in this thread."""
        context = ctypes.c_void_p()
        self.check(
            "cuDevicePrimaryCtxRetain",
            self._library.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
        )
        self.check("cuCtxSetCurrent", self._library.cuCtxSetCurrent(context))

    @staticmethod
    def lacks_context(status: int) -> bool:
        """Whether a launch failed only because this thread has no current context."""
        return status in (_INVALID_CONTEXT, _NOT_INITIALIZED)


@functools.cache
def driver() -> Driver:
    """The driver of this machine. Raises CudaError where there is none."""
    names = ("nvcuda.dll",) if sys.platform == "win32" else ("libcuda.so.1", "libcuda.so")
    failure: Any = None
    for name in names:
        try:
            return Driver(ctypes.CDLL(name))
        except OSError as error:
            failure = error
    raise CudaError(f"no NVIDIA driver on this machine ({failure}): compile for the CPU with target='cpu'")
