"""Functions of the author's that edit the generated source before it is compiled: `register_cuda_postproc`.

They stand among tvm's global functions by the released names, so `tvm_ffi.register_global_func` registers
them too. What an edit makes is found again by this process while the function stays registered, and by no
other: a key cannot tell what a function does.
"""

from __future__ import annotations

import dataclasses
import re
import uuid
from collections.abc import Callable
from typing import Any

import tvm_ffi

from tilelang.arch.target import Target, parse_target
from tilelang.facts.reports import GeneratedSource
from tilelang.jit.kernel_target import KernelTarget

Postprocess = Callable[[str, Any], str]

_NAME = "tilelang_callback_{}_postproc"  # of the function for a kind of target, as the release has it
# Of the process, by kind of target: the function met last, held so that no other takes its place in memory,
# and a name that no other process has.
_MET: dict[str, tuple[Any, str]] = {}


def register_cuda_postproc(func: Postprocess, override: bool = True) -> Postprocess:
    """From now on, CUDA sources are what `func(source, target)` returns. Works as a decorator.

    Raises ValueError if one is registered and `override` is False.
    """
    return _register("cuda", func, override)


def register_hip_postproc(func: Postprocess, override: bool = True) -> Postprocess:
    """As `register_cuda_postproc`, for HIP."""
    return _register("hip", func, override)


def register_c_postproc(func: Postprocess, override: bool = True) -> Postprocess:
    """As `register_cuda_postproc`, for the C that kernels for target `c` show.

    LLVM compiles for the CPU, not that text: a function may add comments to it; compiling
    raises ValueError if it changes more.
    """
    return _register("c", func, override)


def unregister_postproc(kind: str) -> None:
    """Forget the function registered for `cuda`, `hip` or `c`."""
    if _registered(kind) is not None:
        tvm_ffi.remove_global_func(_NAME.format(kind))


def postprocess_stamp(target: Target) -> str | None:
    """A name for the function that edits sources for `target`, of this process alone; None without one."""
    func = _registered(target.kind)
    if func is None:
        return None
    met = _MET.get(target.kind)
    if met is None or met[0].__chandle__() != func.__chandle__():
        met = _MET[target.kind] = func, uuid.uuid4().hex
    return met[1]


def edited(source: GeneratedSource, target: Target) -> GeneratedSource:
    """`source` as the registered function leaves it; the line map holds for what stays in its line.

    Raises TypeError if the function returns no text.
    """
    func = _registered(target.kind)
    if func is None:
        return source
    text = func(source.text, KernelTarget(target.name))
    if not isinstance(text, str):
        raise TypeError(
            f"the {target.kind} postproc function returned {type(text).__name__}; expected the source as str"
        )
    before, after = source.text.splitlines(), text.splitlines()
    lines = tuple(
        number if i < len(before) and i < len(after) and before[i] == after[i] else 0
        for i, number in enumerate((*source.line_map, *[0] * len(after))[: len(after)])
    )
    return dataclasses.replace(source, text=text, line_map=lines)


def edits_c() -> bool:
    """Whether the C that target `c` shows is edited."""
    return _registered("c") is not None


def edited_c(source: str) -> str:
    """The C of a kernel for the CPU as the registered function leaves it.

    Raises ValueError if it changes more than comments, TypeError if it returns no text.
    """
    func = _registered("c")
    if func is None:
        return source
    text = func(source, KernelTarget(parse_target("cpu").name, as_c=True))
    if not isinstance(text, str):
        raise TypeError(f"the c postproc function returned {type(text).__name__}; expected the source as str")
    if _code(text) != _code(source):
        raise ValueError(
            "the c postproc function changes more than comments: LLVM compiles for the CPU, not the C that "
            "target c shows, so the change would have no effect"
        )
    return text


def _code(source: str) -> list[str]:
    """The words of a C text without its comments."""
    return re.sub(r"//[^\n]*|/\*.*?\*/", " ", source, flags=re.DOTALL).split()


def _register(kind: str, func: Postprocess, override: bool) -> Postprocess:
    if not override and _registered(kind) is not None:
        raise ValueError(f"a {kind} postproc function is registered already: pass override=True")
    tvm_ffi.register_global_func(_NAME.format(kind), func, override=True)
    return func


def _registered(kind: str) -> Any:
    """The function for a kind of target; None without one."""
    return tvm_ffi.get_global_func(_NAME.format(kind), allow_missing=True)
