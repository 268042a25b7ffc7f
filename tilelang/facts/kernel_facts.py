"""KernelFacts: everything the editor shows about one kernel. Made by analysis, read by `tilelang_lsp.ide`.

Sizes that are not numbers stay text ("M", "ceildiv(N, 128)"), so that a reader sees what the author wrote.
Spans are absolute in the analysed text; `shifted` moves them when lines are inserted above the kernel.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, replace
from typing import Any, Literal

from tilelang.diagnostics.span import Span

FACTS_VERSION = 1

Size = int | str


@dataclass(frozen=True)
class BufferFact:
    """One tensor, tile or scalar variable of the kernel."""

    name: str
    scope: str  # "global", "shared", "fragment", "local", "var"
    shape: tuple[Size, ...]
    dtype: str  # "unknown" where the frontend could not tell
    span: Span  # the allocation call or the annotation
    name_span: Span  # the name being bound
    bytes: int | None = None  # of one version of the whole tile
    stages: int = 1  # versions that pipelining keeps
    layout: str | None = None  # one line, such as "128-byte swizzle" or "mma m16n8 accumulator"
    registers_per_thread: int | None = None  # 32-bit registers, fragments and locals only
    role: str | None = None  # "parameter" or "output" of the kernel, None for an allocation

    def type_text(self) -> str:
        """`float16[128, 32] shared`, the form hovers and inlay hints use."""
        return f"{self.dtype}[{', '.join(map(str, self.shape))}] {self.scope}"


@dataclass(frozen=True)
class OpFact:
    """One tile operation: what it moves or computes, and how the target will do it."""

    op: str  # "copy", "gemm", ...
    span: Span  # the whole call
    callee_span: Span  # `T.copy`
    summary: str  # "128×32 float16 (8 KiB), global A → shared A_shared"
    hint: str  # short, for the end of the line: "128×32 float16"
    instruction: str | None = None  # "cp.async 16 B", "mma.sync m16n8k16 f32.f16, warps 2×2"
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class LoopFact:
    """One loop over tiles or elements."""

    kind: str  # "Parallel", "Pipelined", "serial", "unroll", "vectorized"
    span: Span  # the iterator expression
    extents: tuple[Size, ...]
    summary: str
    num_stages: int = 0


@dataclass(frozen=True)
class LaunchFact:
    """The launch of the kernel."""

    grid: tuple[Size, ...]
    threads: int | None
    span: Span  # the `T.Kernel(...)` call
    fetching: int = 0  # threads that lowering adds, which fetch tiles while the others compute
    notes: tuple[str, ...] = ()  # what lowering could not do for the kernel, and why


@dataclass(frozen=True)
class Use:
    """A place where a buffer's name stands; `buffer` indexes `KernelFacts.buffers`."""

    span: Span
    buffer: int


@dataclass(frozen=True)
class KernelFacts:
    """What analysis knows of one kernel for one target and one specialisation."""

    name: str
    qualified_name: str  # "factory.inner" for lazy kernels, the function's name otherwise
    style: Literal["eager", "lazy"]
    span: Span  # from the first decorator to the last line
    name_span: Span
    target: str
    specialisation: tuple[tuple[str, str], ...] = ()  # (parameter, value as written)
    missing: tuple[str, ...] = ()  # parameters without a value
    buffers: tuple[BufferFact, ...] = ()
    uses: tuple[Use, ...] = ()
    ops: tuple[OpFact, ...] = ()
    loops: tuple[LoopFact, ...] = ()
    launch: LaunchFact | None = None
    shared_bytes: int | None = None  # of one block, all stages; None where sizes are symbolic
    shared_exact: bool = True  # False: at least so many, the lowering may need more
    shared_limit: int | None = None
    lowered_with: tuple[tuple[str, str], ...] = ()  # sizes that layouts and instructions were chosen for
    symbols: tuple[str, ...] = ()  # T.const and T.dynamic names, in order of appearance
    version: int = FACTS_VERSION

    def shifted(self, lines: int) -> KernelFacts:
        """The same facts after `lines` lines were inserted above the kernel."""
        return _shift(self, lines) if lines else self

    def to_json(self) -> dict[str, Any]:
        return _to_json(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> KernelFacts:
        """Rebuild from `to_json`. Raises ValueError for another FACTS_VERSION."""
        if data.get("version") != FACTS_VERSION:
            raise ValueError(f"kernel facts of version {data.get('version')}, expected {FACTS_VERSION}")
        span = Span.from_json
        launch = data["launch"]
        return KernelFacts(
            **{
                k: data[k]
                for k in (
                    "name",
                    "qualified_name",
                    "style",
                    "target",
                    "shared_bytes",
                    "shared_exact",
                    "shared_limit",
                )
            },
            span=span(data["span"]),
            name_span=span(data["name_span"]),
            specialisation=tuple((k, v) for k, v in data["specialisation"]),
            missing=tuple(data["missing"]),
            lowered_with=tuple((k, v) for k, v in data["lowered_with"]),
            symbols=tuple(data["symbols"]),
            buffers=tuple(_record(BufferFact, b) for b in data["buffers"]),
            uses=tuple(_record(Use, u) for u in data["uses"]),
            ops=tuple(_record(OpFact, o) for o in data["ops"]),
            loops=tuple(_record(LoopFact, x) for x in data["loops"]),
            launch=_record(LaunchFact, launch) if launch else None,
        )


def _record(cls: Any, data: dict[str, Any]) -> Any:
    fields = dict(data)
    for key, value in fields.items():
        if key.endswith("span"):
            fields[key] = Span.from_json(value)
        elif isinstance(value, list):
            fields[key] = tuple(value)
    return cls(**fields)


def _to_json(value: Any) -> Any:
    if isinstance(value, Span):
        return value.to_json()
    if dataclasses.is_dataclass(value):
        return {f.name: _to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [_to_json(v) for v in value]
    return value


def _shift(value: Any, lines: int) -> Any:
    if isinstance(value, Span):
        return value.shifted(lines)
    if isinstance(value, tuple):
        return tuple(_shift(v, lines) for v in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return replace(
            value, **{f.name: _shift(getattr(value, f.name), lines) for f in dataclasses.fields(value)}
        )
    return value
