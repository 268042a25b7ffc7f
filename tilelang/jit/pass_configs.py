"""The names of pass configurations, and which of them this compiler acts on."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable, Mapping
from enum import Enum
from os import PathLike
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
        PassConfigKey.TL_ENABLE_DUMP_IR,
        PassConfigKey.TL_DUMP_IR_DIR,
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
# Values that are neither truth values nor whole numbers; None: anything.
_VALUES: Mapping[str, tuple[type, ...] | None] = {
    PassConfigKey.TL_DEVICE_COMPILE_FLAGS.value: (str, list, tuple),
    PassConfigKey.TL_LAYOUT_VISUALIZATION_FORMATS.value: (str, list, tuple),
    PassConfigKey.TL_LAYOUT_COST_MODEL.value: (str,),
    PassConfigKey.TL_ENABLE_AUTO_WARP_SPECIALIZATION.value: (str, bool, int),
    PassConfigKey.TL_DUMP_IR_DIR.value: (str, PathLike),
    PassConfigKey.CUDA_KERNELS_OUTPUT_DIR.value: (str, PathLike),
    PassConfigKey.TL_PASS_PROFILE_THRESHOLD_MS.value: (int, float),
    PassConfigKey.TIR_ADD_LOWER_PASS.value: None,
    PassConfigKey.TL_SIMPLIFY.value: None,
    PassConfigKey.TIR_SIMPLIFY.value: None,
}


class PassConfigError(ValueError, AttributeError):
    """A pass configuration that no release of the language has, or with a value of another kind than its own.

    An AttributeError too, which is what tvm's own pass context raises for both.
    """


def key_name(key: Any) -> str:
    """The name of a key given as `PassConfigKey` or as text."""
    return str(key.value) if isinstance(key, Enum) else str(key)


def check_pass_configs(configs: Mapping[str, Any]) -> None:
    """Raise PassConfigError for a name that neither the language nor tvm has, or a value of a wrong kind."""
    from tvm.ir.transform import (
        PassContext,
    )  # options are read where a saved kernel is loaded without tvm too

    for name, value in configs.items():
        if name in _KNOWN:
            _check_value(name, value)
        elif name not in PassContext.list_configs():
            near = difflib.get_close_matches(name, _KNOWN, n=1)
            also = f"; did you mean {near[0]!r}?" if near else ""
            raise PassConfigError(f"Invalid config option {name!r}: no pass reads it{also}")


def _check_value(name: str, value: Any) -> None:
    kinds = _VALUES.get(name, (bool, int))
    if kinds is None or isinstance(value, kinds):
        return
    expected = " or ".join(kind.__name__ for kind in kinds)
    raise PassConfigError(f"the pass configuration {name!r} is {value!r}; expected {expected}")


def mention(names: Iterable[str]) -> None:
    """Say in the log which of them have no effect, for want of such a pass."""
    for name in names:
        if name in _KNOWN and not any(name == key.value for key in _ACTED_ON | _HOLDS_ANYWAY):
            _log.info("the pass configuration %s has no effect: this compiler has no such pass", name)
