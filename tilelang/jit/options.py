"""How a kernel is to be compiled: target, outputs, pass configurations, flags; read from what users write."""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tilelang.arch.backends import BACKENDS, KNOWN_BACKENDS
from tilelang.arch.target import Target, parse_target
from tilelang.env import env
from tilelang.jit.pass_configs import key_name, mention
from tilelang.jit.target_detectors import detected, detectors_stamp, normalized


def _numbers(out_idx: Any) -> tuple[int, ...] | None:
    """`out_idx` as numbers; one may stand for itself."""
    if out_idx is None:
        return None
    entries: Iterable[Any] = out_idx if isinstance(out_idx, Iterable) else (out_idx,)
    numbers = []
    for entry in entries:
        try:
            numbers.append(operator.index(entry))
        except TypeError:
            raise TypeError(
                f"out_idx is {out_idx!r}; expected the number of a parameter, or several: -1, [2, 3]"
            ) from None
    return tuple(numbers)


def _by_name(pass_configs: Any) -> dict[str, Any]:
    """Pass configurations with their keys as text."""
    if not isinstance(pass_configs, Mapping):
        raise TypeError(
            f"pass_configs is {pass_configs!r}; expected a mapping such as {{'tl.enable_fast_math': True}}"
        )
    return {key_name(k): v for k, v in pass_configs.items()}


def check_backend(name: str | None, target: Target | None) -> None:
    """Raise ValueError for a backend that no target has, or that `target` (None: not chosen yet) lacks."""
    if name in (None, "auto"):
        return
    if name not in KNOWN_BACKENDS:
        raise ValueError(f"Invalid execution backend {name!r}: write one of {', '.join(KNOWN_BACKENDS)}")
    if target is not None and name not in BACKENDS[target.kind]:
        have = ", ".join(("auto", *BACKENDS[target.kind]))
        raise ValueError(
            f"Invalid execution backend {name!r} for target {target.kind!r}: write one of {have}"
        )


@dataclass(frozen=True)
class CompileOptions:
    """Everything but the program that decides what a kernel becomes. `target` None: chosen when compiling."""

    target: Target | None = None
    out_idx: tuple[int, ...] | None = None
    pass_configs: Mapping[str, Any] = field(default_factory=dict)
    compile_flags: tuple[str, ...] = ()
    verbose: bool = False
    debug_root_path: str | None = None
    execution_backend: str | None = None  # as it was asked for; every name means the one runtime there is
    target_host: Any = None  # as it was asked for; no host code is generated
    named_target: Any = None  # `target` as the author wrote it

    @staticmethod
    def read(
        *,
        target: Any = None,
        out_idx: int | Sequence[int] | None = None,
        pass_configs: Mapping[Any, Any] | None = None,
        compile_flags: str | Sequence[str] | None = None,
        verbose: bool | None = None,
        debug_root_path: str | None = None,
        execution_backend: str | None = None,
        target_host: Any = None,
    ) -> CompileOptions:
        """From the arguments of `tilelang.jit` and `tilelang.compile`.

        Raises ValueError for an unknown target, and for a backend that no target has or the given one lacks;
        TypeError for outputs that are no numbers and pass configurations that are no mapping.
        """
        if isinstance(compile_flags, str):
            compile_flags = compile_flags.split()
        if verbose is None:
            verbose = env.get_default_verbose()
        configs = _by_name(pass_configs or {})
        mention(configs)
        target = None if target is None else normalized(target)
        chosen = None if target in (None, "auto") else parse_target(target)
        check_backend(execution_backend, chosen)
        return CompileOptions(
            target=chosen,
            out_idx=_numbers(out_idx),
            pass_configs=configs,
            compile_flags=tuple(compile_flags or ()),
            verbose=verbose,
            debug_root_path=debug_root_path,
            execution_backend=execution_backend,
            target_host=target_host,
            named_target=target,
        )

    def with_pass_configs(self, more: Mapping[Any, Any] | None) -> CompileOptions:
        """The same with further pass configurations, which win over its own."""
        if not more:
            return self
        read = _by_name(more)
        mention(read)
        return replace(self, pass_configs={**self.pass_configs, **read})

    def over(self, below: CompileOptions) -> CompileOptions:
        """These options, and those of `below` where these say nothing."""
        return CompileOptions(
            target=self.target if self.target is not None else below.target,
            out_idx=self.out_idx if self.out_idx is not None else below.out_idx,
            pass_configs={**below.pass_configs, **self.pass_configs},
            compile_flags=self.compile_flags or below.compile_flags,
            verbose=self.verbose or below.verbose,
            debug_root_path=self.debug_root_path or below.debug_root_path,
            execution_backend=self.execution_backend or below.execution_backend,
            target_host=self.target_host if self.target_host is not None else below.target_host,
            named_target=self.named_target if self.target is not None else below.named_target,
        )

    @property
    def asks_for_c(self) -> bool:
        """Whether the author named the target `c`, whose generated source is C."""
        named = self.named_target
        kind = named.get("kind") if isinstance(named, Mapping) else getattr(named, "kind", named)
        return str(getattr(kind, "name", kind) or "").split(" ")[0] == "c"

    @property
    def backend(self) -> str:
        """The backend by name: the one asked for, else the target's own."""
        if self.execution_backend not in (None, "auto"):
            return str(self.execution_backend)
        if self.asks_for_c:
            return "cython"
        return "auto" if self.target is None else BACKENDS[self.target.kind][0]

    def resolved(self) -> CompileOptions:
        """The same with a target: that of `with tvm.target.Target(...)` around the call,
        TILELANG_DEFAULT_TARGET, else the GPU that torch sees, else the CPU; and with the backend of
        TILELANG_EXECUTION_BACKEND where none was asked for. Raises ValueError for one that the target lacks.
        """
        backend = self.execution_backend or os.environ.get("TILELANG_EXECUTION_BACKEND")
        if self.target is not None and backend == self.execution_backend:
            return self
        target, named = self.target, self.named_target
        if target is None:
            target = default_target()
            around = _target_around()
            named = os.environ.get("TILELANG_DEFAULT_TARGET") if around is None else around
        check_backend(backend, target)
        return replace(self, target=target, named_target=named, execution_backend=backend)


def default_target() -> Target:
    """The target of a kernel that names none: that of the context around the call, that of
    TILELANG_DEFAULT_TARGET, the GPU that torch sees, what a registered detector finds, else the CPU.
    """
    around = _target_around()
    if around is not None:
        return parse_target(around)
    named = os.environ.get("TILELANG_DEFAULT_TARGET", "auto")
    if named != "auto":
        return parse_target(normalized(named))
    try:
        import torch
    except ImportError:
        torch = None
    if torch is not None and torch.version.cuda and torch.cuda.is_available():
        major, minor = torch.cuda.get_device_capability()
        return Target("cuda", f"sm_{major}{minor}")
    found = detected()
    return parse_target("cpu" if found is None else normalized(found))


def _target_around() -> Any:
    """The target of the innermost `with tvm.target.Target(...)`, or None."""
    target = sys.modules.get("tvm.target")
    return target.Target.current(allow_none=True) if target is not None else None


def default_target_stamp() -> tuple[Any, ...]:
    """Changes whenever `default_target` could: a call asks it each time, where asking for the target itself
    would cost more than the launch.
    """
    torch = sys.modules.get("torch")
    device = torch.cuda.current_device() if torch is not None and torch.cuda.is_initialized() else None
    around = _target_around()
    around = None if around is None else str(around)
    return os.environ.get("TILELANG_DEFAULT_TARGET"), device, around, detectors_stamp()
