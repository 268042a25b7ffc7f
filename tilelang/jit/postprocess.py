"""Functions of the author's that edit the generated source before it is compiled: `register_cuda_postproc`.

Process-wide, as the functions that register. What an edit makes is found again by this process while the
function stays registered, and by no other: a key cannot tell what a function does.
"""

from __future__ import annotations

import dataclasses
import re
import uuid
from collections.abc import Callable

from tilelang.arch.target import Target, parse_target
from tilelang.facts.reports import GeneratedSource

Postprocess = Callable[[str, Target], str]

# Of the process, by kind of target: the function, and a name of its registration that no other process has.
_REGISTERED: dict[str, tuple[Postprocess, str]] = {}


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
    _REGISTERED.pop(kind, None)


def postprocess_stamp(target: Target) -> str | None:
    """A name for the function that edits sources for `target`, of this process alone; None without one."""
    return _REGISTERED[target.kind][1] if target.kind in _REGISTERED else None


def edited(source: GeneratedSource, target: Target) -> GeneratedSource:
    """`source` as the registered function leaves it; the line map holds for what stays in its line.

    Raises TypeError if the function returns no text.
    """
    if target.kind not in _REGISTERED:
        return source
    text = _REGISTERED[target.kind][0](source.text, target)
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
    return "c" in _REGISTERED


def edited_c(source: str) -> str:
    """The C of a kernel for the CPU as the registered function leaves it.

    Raises ValueError if it changes more than comments, TypeError if it returns no text.
    """
    if "c" not in _REGISTERED:
        return source
    text = _REGISTERED["c"][0](source, parse_target("cpu"))
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
    if kind in _REGISTERED and not override:
        raise ValueError(f"a {kind} postproc function is registered already: pass override=True")
    _REGISTERED[kind] = func, uuid.uuid4().hex
    return func
