"""The names of pass configurations, and which of them this compiler acts on."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable
from enum import Enum
from typing import Any

from tilelang.arch.pass_config_keys import PassConfigKey

_log = logging.getLogger(__name__)


# What the passes and the toolchains read.
_ACTED_ON = frozenset(
    {
        PassConfigKey.TL_ENABLE_FAST_MATH,
        PassConfigKey.TL_DEVICE_COMPILE_FLAGS,
        PassConfigKey.TL_DISABLE_SAFE_MEMORY_ACCESS,
        PassConfigKey.TL_DISABLE_WGMMA,
        PassConfigKey.TL_DISABLE_WARP_SPECIALIZED,
        PassConfigKey.TL_DISABLE_TMA_LOWER,
        PassConfigKey.TL_CPU_POISON_ALLOCATIONS,
    }
)
# What asks for that which always holds here.
_HOLDS_ANYWAY = frozenset(
    {
        PassConfigKey.TL_DISABLE_FAST_MATH,
        PassConfigKey.TL_SIMPLIFY,
        PassConfigKey.TIR_SIMPLIFY,
        PassConfigKey.TIR_MERGE_STATIC_SMEM,
        PassConfigKey.TIR_NOALIAS,
        PassConfigKey.TL_ENABLE_AGGRESSIVE_SHARED_MEMORY_MERGE,
        PassConfigKey.TL_ENABLE_ASYNC_COPY,
        PassConfigKey.TIR_USE_ASYNC_COPY,
    }
)
_KNOWN = frozenset(key.value for key in PassConfigKey)


def key_name(key: Any) -> str:
    """The name of a key given as `PassConfigKey` or as text."""
    return str(key.value) if isinstance(key, Enum) else str(key)


def mention(names: Iterable[str]) -> None:
    """Log what has no effect: a warning for a name that no release of the language has, else a notice."""
    for name in names:
        if name not in _KNOWN:
            near = difflib.get_close_matches(name, _KNOWN, n=1)
            also = f"; did you mean {near[0]}?" if near else ""
            _log.warning("the pass configuration %s is not known and has no effect%s", name, also)
        elif not any(name == key.value for key in _ACTED_ON | _HOLDS_ANYWAY):
            _log.info("the pass configuration %s has no effect: this compiler has no such pass", name)
