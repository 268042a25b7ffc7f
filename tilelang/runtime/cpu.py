"""Runs CPU kernels: loads the object or shared file, keeps scratch memory per thread, spreads blocks over
threads.
"""

from __future__ import annotations

import concurrent.futures
import ctypes
import functools
import importlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilelang.runtime.artifact import Artifact
from tilelang.runtime.bind import BoundCall, refuse_without_memory
from tilelang.runtime.plan import TensorParam
from tilelang.runtime.tensors import address

_ALIGNMENT = 64  # bytes, of scratch memory
_WORTH_WAKING = 200e-6  # seconds of work; handing it to a thread costs about half of that
_Entry = Callable[..., Any]


class LoadError(RuntimeError):
    """A saved kernel cannot be loaded on this machine."""


class CpuFunction:
    """The entry point of a CPU kernel: `launch` runs all its blocks and returns when they are done."""

    def __init__(self, artifact: Artifact) -> None:
        self._entry = artifact.loaded[artifact.plan.entry] if artifact.loaded else load_entry(artifact)
        self._name = artifact.name
        self._params = artifact.plan.params
        self._pointers = [isinstance(p, TensorParam) for p in self._params]
        self._serial = artifact.plan.serial_blocks
        self._scratch = threading.local()

    def launch(self, values: Sequence[Any], sizes: Sequence[int], bound: BoundCall) -> None:
        """Run all blocks. `values` are tensors and scalars in the plan's order.

        The first blocks run here and are timed; other threads are woken only if the rest is worth it.
        """
        arguments = [*map(_argument, values, self._pointers), *sizes]
        if any(p and not a for p, a in zip(self._pointers, arguments, strict=False)):
            refuse_without_memory(self._name, self._params, values)
        blocks, workspace = bound.blocks, bound.workspace
        threads = 1 if self._serial else min(thread_count(), blocks)
        head = max(blocks // (8 * threads), 1) if threads > 1 else blocks
        started = time.perf_counter()
        self._run(arguments, 0, head, workspace)
        rest = blocks - head
        if not rest:
            return
        if (time.perf_counter() - started) * rest < _WORTH_WAKING * head:
            self._run(arguments, head, blocks, workspace)
            return
        bounds = [head + rest * t // threads for t in range(threads + 1)]
        pool = _pool()
        waiting = [
            pool.submit(self._run, arguments, bounds[t], bounds[t + 1], workspace) for t in range(1, threads)
        ]
        self._run(arguments, bounds[0], bounds[1], workspace)
        for future in waiting:
            future.result()

    def _run(self, arguments: Sequence[Any], first: int, last: int, workspace: tuple[int, ...]) -> None:
        self._entry(*arguments, *self._buffers(workspace), first, last)

    def _buffers(self, sizes: tuple[int, ...]) -> Sequence[ctypes.c_void_p]:
        """Pointers to scratch memory of this thread, grown when a call needs more."""
        held = getattr(self._scratch, "held", None)
        if held is None or held[0] != sizes:
            starts, total = [], 0
            for size in sizes:
                starts.append(total)
                # One more line between tiles keeps equal columns of different tiles in different cache sets.
                total += (size + 2 * _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT
            memory = np.empty(total + _ALIGNMENT, np.uint8)
            base = (memory.ctypes.data + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT
            held = (sizes, memory, tuple(ctypes.c_void_p(base + s) for s in starts))
            self._scratch.held = held
        return held[2]


def _argument(value: Any, is_pointer: bool) -> Any:
    """The address of a tensor's data, a scalar as it is."""
    return ctypes.c_void_p(address(value)) if is_pointer else value


def thread_count() -> int:
    """How many threads run blocks: TILELANG_CPU_THREADS, else the processors this process may use."""
    wanted = os.environ.get("TILELANG_CPU_THREADS", "")
    if wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
    return _processors()


@functools.cache
def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@functools.cache
def _pool() -> concurrent.futures.ThreadPoolExecutor:
    """The worker threads; tvm-ffi releases the interpreter lock while a kernel runs."""
    return concurrent.futures.ThreadPoolExecutor(
        max_workers=max(_processors(), thread_count()), thread_name_prefix="tilelang-cpu"
    )


if hasattr(os, "register_at_fork"):  # a forked child has the pool but not its threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


def load_entry(artifact: Artifact) -> _Entry:
    """The entry point of a saved CPU kernel. Raises LoadError that says what is missing."""
    if artifact.binary_format == "so":
        return _load_shared(artifact.binary, artifact.plan.entry)
    if artifact.binary_format != "o":
        raise LoadError(f"{artifact.name} was saved without a binary for {artifact.target}")
    if has_object_loader():
        return _load_object(artifact.binary, artifact.plan.entry)
    if linker() is not None:
        return _load_shared(link(artifact.binary), artifact.plan.entry)
    raise LoadError(
        f"{artifact.name} is an object file: install apache-tvm-ffi-orcjit, or a C compiler as cc, to load it"
    )


def has_object_loader() -> bool:
    """Whether the wheel that loads object files is installed."""
    return importlib.util.find_spec("tvm_ffi_orcjit") is not None


def linker() -> str | None:
    """The C compiler that can link an object file, if there is one."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def link(binary: bytes) -> bytes:
    """The shared object made of one object file. Raises LoadError with the linker's words."""
    compiler = linker()
    if compiler is None:
        raise LoadError("no C compiler found to link with")
    with tempfile.TemporaryDirectory(prefix="tilelang-link-") as folder:
        source, out = Path(folder, "kernel.o"), Path(folder, "kernel.so")
        source.write_bytes(binary)
        # An editor may start us without PATH; the compiler then does not find its own linker.
        environment = {**os.environ, "PATH": os.environ.get("PATH") or os.defpath}
        done = subprocess.run(
            [compiler, "-shared", "-o", out, source, "-lm"], capture_output=True, text=True, env=environment
        )
        if done.returncode:
            raise LoadError(f"{compiler} could not link the kernel: {done.stderr.strip()}")
        return out.read_bytes()


def _load_shared(binary: bytes, name: str) -> _Entry:
    import tvm_ffi

    return _from_file(binary, "so", lambda path: tvm_ffi.load_module(path))[name]


def _load_object(binary: bytes, name: str) -> _Entry:
    session = importlib.import_module("tvm_ffi_orcjit").default_session()
    return _from_file(binary, "o", session.load_module)[name]


def _from_file(binary: bytes, extension: str, load: Callable[[str], Any]) -> Any:
    """Loaders want a file; it may go once its code is mapped."""
    with tempfile.NamedTemporaryFile(prefix="tilelang-", suffix=f".{extension}") as file:
        file.write(binary)
        file.flush()
        return load(file.name)
