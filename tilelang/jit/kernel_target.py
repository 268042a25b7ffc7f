"""`kernel.target`: tvm's target object, which also prints and compares by our names (`cuda:sm_90`)."""

from __future__ import annotations

from typing import Any

from tvm.target import Target

from tilelang.arch.target import parse_target

# tvm's names of our kinds: the stock wheel has no kind "hip". What it would ask the machine for is given.
_AS_TVM: dict[str, dict[str, Any]] = {
    "cuda": {"kind": "cuda"},
    "hip": {"kind": "rocm", "mtriple": "amdgcn-amd-amdhsa-hcc"},
    "metal": {"kind": "metal"},
    "cpu": {"kind": "llvm"},
}
_ARCH = {"cuda": "arch", "hip": "mcpu"}  # the attribute that holds the architecture


class KernelTarget(Target):
    """The target a kernel was compiled for: `kernel.target.kind.name`, `.attrs`, `with kernel.target:`.

    Its text is the canonical name, which it is also equal to, as to the name of its kind.
    """

    __slots__ = ("name",)

    def __init__(self, name: str, as_c: bool = False) -> None:
        """name: a target of ours, such as `cuda:sm_90`. as_c: the author asked for C rather than LLVM."""
        own = parse_target(name)
        described: dict[str, Any] = {"kind": "c"} if as_c and own.kind == "cpu" else dict(_AS_TVM[own.kind])
        if own.kind in _ARCH:
            described[_ARCH[own.kind]] = own.arch
        super().__init__(described)
        self.name = own.name

    @property
    def kind_name(self) -> str:
        """tvm's name of the kind."""
        kind: Any = self.kind
        return str(kind.name)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return other in (self.name, self.kind_name, self.name.partition(":")[0])
        return isinstance(other, Target) and dict(self.export()) == dict(other.export())

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> Any:
        return KernelTarget, (self.name, self.kind_name == "c")
