"""How the configurations of a search are compiled, as `AutoTuner.set_compile_args` is told it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilelang.jit.decorator import compile
from tilelang.jit.kernel import JITKernel
from tilelang.jit.options import CompileOptions
from tilelang.jit.pass_configs import key_name


@dataclass(frozen=True)
class CompileArgs:
    """The arguments of `tilelang.compile` that a search shares."""

    out_idx: int | Sequence[int] | None = None
    execution_backend: str | None = "auto"
    target: Any = "auto"
    target_host: Any = None
    verbose: bool | None = False
    pass_configs: Mapping[Any, Any] | None = None

    def compile_program(self, program: Any) -> JITKernel:
        """The kernel of a function under `@T.prim_func`. Raises what `tilelang.compile` does."""
        return compile(program, **vars(self))

    def options(self) -> CompileOptions:
        """The same for the compiler. Raises ValueError for an unknown target or backend."""
        return CompileOptions.read(**vars(self))

    def __hash__(self) -> int:
        """Equal ones have equal texts; lists and mappings among the values have no hash of their own."""
        configs = sorted((key_name(k), repr(v)) for k, v in (self.pass_configs or {}).items())
        own = {k: str(v) for k, v in vars(self).items() if k != "pass_configs"}
        return hash(json.dumps([own, configs], sort_keys=True))
