"""Device helpers: what a `tl.<target>.<name>(...)` call prints as, with the source it needs.

A target lists its helpers in `targets/<target>/intrinsics.py` as `INTRINSICS: Mapping[str, Intrinsic]`, keyed
by the part of the operation's name after `tl.<target>.`. Only the helpers that a kernel calls are printed,
below the kernel, with a forward declaration above it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Intrinsic:
    """One device helper. Exactly one of `source` and `inline` is set.

    `source` is the whole definition without linkage words, beginning with `template <...>` or the return
    type: `void cp_async_16(void* dst, const void* src) { ... }`. The emission adds the target's own (`static
    __device__ __forceinline__`). `inline` is an expression with `{0}`, `{1}`, ... for the printed arguments
    (`{args}` for all, comma-separated, `{rest}` for all but the first, a comma before each), for what needs
    no function: `__syncthreads()`.

    `template_args`: how many leading arguments of the call are printed between `<` and `>`; they must be
    constants. `includes`: headers, as written between the brackets. `requires`: names of other helpers that
    `source` calls. `types`: those of the dialect's `declarations` that it needs. `writes`: for `inline` only,
    which arguments (by position) are pointers that are written through; for `source` this is read from its
    parameter list: `const T*` is read, `T*` is written. `unless_known`: the macro of the compiler that
    `source` is for; others know the function.
    """

    source: str | None = None
    inline: str | None = None
    template_args: int = 0
    includes: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    writes: tuple[int, ...] = ()
    unless_known: str | None = None

    def __post_init__(self) -> None:
        if (self.source is None) == (self.inline is None):
            raise ValueError("a device helper has either source or inline text")

    @property
    def declaration(self) -> str:
        """The part of `source` before its body, template head included, without the semicolon."""
        head = (self.source or "").partition("{")[0]
        return " ".join(head.split()).replace("( ", "(")

    @property
    def parameters(self) -> tuple[str, ...]:
        """The texts of the parameters of `source`."""
        inside = self.declaration.rpartition(")")[0]
        inside = inside[inside.rindex(f"{self.function}(") + len(self.function) + 1 :]
        return tuple(p.strip() for p in inside.split(",")) if inside.strip() else ()

    @property
    def function(self) -> str:
        """The name of the function that `source` defines."""
        without_template = re.sub(r"^template\s*<[^>]*>\s*", "", self.declaration)
        match = re.match(r"[^(]*?(\w+)\s*\(", without_template)
        if match is None:
            raise ValueError(f"no function in {self.declaration!r}")
        return match.group(1)

    def written(self, position: int) -> bool:
        """Whether the call may write through its argument `position` (template arguments count)."""
        if self.source is None:
            return position in self.writes
        at = position - self.template_args
        parameters = self.parameters
        return not (0 <= at < len(parameters) and parameters[at].startswith("const "))
