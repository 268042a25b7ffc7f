"""Names in generated source: those of the Python source where C allows them, unique where two would meet."""

from __future__ import annotations

import re
from typing import Any

from tilelang.passes.split_launches import LAUNCH

_KEYWORD_TEXT = """
    alignas alignof and asm auto bool break case catch char class const constexpr continue decltype default
    delete do double else enum explicit export extern false float for friend goto if inline int long mutable
    namespace new not noexcept nullptr operator or private protected public register return short signed
    sizeof static struct switch template this throw true try typedef typeid typename union unsigned using
    virtual void volatile while xor half bfloat kernel device constant threadgroup thread uchar uint ushort
    ulong threadIdx blockIdx blockDim gridDim warpSize smem min max abs main
"""
_KEYWORDS = frozenset(_KEYWORD_TEXT.split())


def entry_name(func: Any) -> str:
    """The name of the device function of one launch, as the language's release has it: `<kernel>_kernel`, and
    `<kernel>_kernel_1`, ... for further launches of a kernel.
    """
    name = f"{func.attrs['global_symbol']}_kernel"
    return f"{name}_{int(func.attrs[LAUNCH])}" if LAUNCH in func.attrs else name


class Names:
    """Hands out names that are free where they are asked for; a name is free again when its scope is left."""

    def __init__(self, reserved: set[str]) -> None:
        self._taken: set[str] = set(reserved)
        self._scopes: list[list[str]] = [[]]

    def enter(self) -> None:
        self._scopes.append([])

    def leave(self) -> None:
        self._taken.difference_update(self._scopes.pop())

    def new(self, hint: str) -> str:
        """`hint` as an identifier, with `_1`, `_2`, ... if it is taken."""
        base = re.sub(r"\W", "_", hint) or "v"
        if base[0].isdigit():
            base = f"v{base}"
        name, k = base, 0
        while name in self._taken or name in _KEYWORDS:
            k += 1
            name = f"{base}_{k}"
        self._taken.add(name)
        self._scopes[-1].append(name)
        return name
