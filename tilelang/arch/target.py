"""A compilation target as people write it (`"cuda"`, `"cuda:sm_90"`, `{"kind": "cuda", "arch": "sm_80"}`)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilelang.arch.cuda import SHARED_BYTES

# Used where the author names a kind but no architecture.
DEFAULT_ARCH = {"cuda": "sm_90", "hip": "gfx942", "metal": "metal3", "cpu": "native"}
_ALIASES = {"llvm": "cpu", "c": "cpu", "rocm": "hip", "nvidia": "cuda", "mps": "metal"}


@dataclass(frozen=True)
class Target:
    """`kind` is cuda, hip, metal or cpu; `arch` an architecture of it."""

    kind: str
    arch: str

    @property
    def name(self) -> str:
        """`cuda:sm_90`, the canonical spelling."""
        return f"{self.kind}:{self.arch}"

    @property
    def sm(self) -> int:
        """The number of an NVIDIA architecture: 90 for sm_90 and sm_90a. 0 for other kinds."""
        match = re.fullmatch(r"sm_(\d+)[af]?", self.arch)
        return int(match.group(1)) if match else 0

    @property
    def warp_size(self) -> int:
        """Threads that run in step: 64 on AMD CDNA, 32 elsewhere."""
        return 64 if self.kind == "hip" and self.arch.startswith("gfx9") else 32

    def __str__(self) -> str:
        return self.name


class UnknownTargetError(ValueError, AssertionError):
    """No such target, or no such architecture of it; an AssertionError too, as the language has it."""


def parse_target(spec: Any) -> Target:
    """Read a target from a string (JSON too), a mapping with `kind` and `arch`, a Target, or one of tvm's.

    Raises UnknownTargetError that lists the known kinds, or the known architectures of CUDA.
    """
    if isinstance(spec, Target):
        return spec
    if not isinstance(spec, str | Mapping) and hasattr(spec, "kind"):  # tvm.target.Target
        attrs = getattr(spec, "attrs", {})
        kind = str(getattr(spec.kind, "name", spec.kind))
        arch = attrs.get("mcpu", "") if _ALIASES.get(kind, kind) == "hip" else attrs.get("arch", "")
        spec = {"kind": kind, "arch": str(arch)}
    if isinstance(spec, str) and spec.startswith("{"):  # JSON, as a target of tvm shows itself
        try:
            spec = json.loads(spec)
        except ValueError:
            raise UnknownTargetError(_unknown(spec)) from None
    if isinstance(spec, Mapping):
        kind, arch = str(spec.get("kind", "")), str(spec.get("arch", "") or "")
    else:
        match = re.fullmatch(
            r"\s*([A-Za-z]+)(?:\s*[: ]\s*(?:-{1,2}(?:arch|mcpu)=)?([A-Za-z0-9_]+))?\s*", str(spec)
        )
        if match is None:
            raise UnknownTargetError(_unknown(spec))
        kind, arch = match.group(1), match.group(2) or ""
    kind = _ALIASES.get(kind.lower(), kind.lower())
    if kind not in DEFAULT_ARCH:
        raise UnknownTargetError(_unknown(spec))
    target = Target(kind, arch or DEFAULT_ARCH[kind])
    if kind == "cuda" and target.sm not in SHARED_BYTES:
        known = ", ".join(f"sm_{sm}" for sm in SHARED_BYTES)
        raise UnknownTargetError(f"unknown CUDA architecture {arch!r}: write one of {known}")
    return target


def _unknown(spec: Any) -> str:
    kinds = ", ".join(sorted(DEFAULT_ARCH))
    example = "with an architecture as in 'cuda:sm_80' or 'hip:gfx942'"
    return f"unknown target {spec!r}: write one of {kinds}, {example}"
