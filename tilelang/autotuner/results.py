"""Results of tuning on disk: which configuration was the fastest, so that the next process does not search.

One JSON file per search, beside the cache of compiled kernels. It holds the configuration and its times; the
kernel itself comes from the cache of kernels. TILELANG_AUTO_TUNING_DISABLE_CACHE=1 turns it off.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import logging
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilelang.env import is_cache_enabled
from tilelang.jit import cache
from tilelang.runtime.tensors import view
from tilelang.version import PACKAGE_VERSION

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StoredResult:
    """The fastest configuration of a search. Milliseconds."""

    config: dict[str, Any]
    latency: float
    ref_latency: float | None


def is_enabled() -> bool:
    """Whether results are looked for and kept on disk."""
    return is_cache_enabled() and os.environ.get("TILELANG_AUTO_TUNING_DISABLE_CACHE", "0") != "1"


def search_key(
    function: Callable[..., Any],
    configs: Sequence[Mapping[str, Any]],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    extra: Mapping[str, Any],
) -> str | None:
    """A name for everything that decides the result; None if an argument cannot be told from another.

    Only functions whose source is known and whose arguments are numbers, strings, dtypes, tensors and
    containers of these have one: an object without a stable text would find somebody else's result.
    """
    try:
        source = inspect.getsource(function)
        closure = inspect.getclosurevars(function)
        parts = {
            "function": f"{function.__module__}.{function.__qualname__}",
            "source": source,
            "free": _stable(closure.nonlocals),
            "configs": _stable(configs),
            "args": _stable(args),
            "kwargs": _stable(kwargs),
            "extra": _stable(extra),
            "version": PACKAGE_VERSION,
            "device": _device(),
        }
    except (OSError, TypeError, ValueError):
        return None
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def find(key: str) -> StoredResult | None:
    """The stored result of a search; None if there is none, or it cannot be read."""
    try:
        data = json.loads(_file(key).read_text(encoding="utf-8"))
        return StoredResult(dict(data["config"]), float(data["latency"]), data["ref_latency"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        _log.warning("ignoring a stored tuning result: %s", error)
        return None


def keep(key: str, result: StoredResult) -> None:
    """Store a result. A configuration that JSON does not carry exactly, or a folder that cannot be written,
    only means that the next process searches again.
    """
    try:
        text = json.dumps(
            {"config": result.config, "latency": result.latency, "ref_latency": result.ref_latency}
        )
        if json.loads(text)["config"] != result.config:
            return
        target = _file(key)
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=target.parent, suffix=".tmp")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(name, target)
    except (TypeError, OSError) as error:
        _log.info("the tuning result was not stored: %s", error)


def folder() -> Path:
    """Where results are kept."""
    return cache.cache_dir() / "autotuner"


def _file(key: str) -> Path:
    return folder() / f"{key}.json"


def _device() -> str:
    """What the times were measured on."""
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"


def _stable(value: Any) -> Any:
    """`value` as JSON data that is equal exactly for equal values. Raises TypeError for other objects."""
    if value is None or isinstance(value, bool | int | float | str):
        return [type(value).__name__, repr(value)]
    if isinstance(value, Mapping):
        return {str(k): _stable(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [type(value).__name__, *map(_stable, value)]
    tensor = view(value)
    if tensor is not None:
        return ["tensor", tensor.dtype, list(tensor.shape), list(tensor.strides), tensor.device]
    if type(value).__module__.split(".")[0] in ("tilelang", "torch", "numpy", "enum") or hasattr(
        value, "name"
    ):
        text = str(value)
        if " at 0x" not in text:
            return [type(value).__name__, text]
    if inspect.isfunction(value):
        return ["function", value.__qualname__, inspect.getsource(value)]
    if inspect.ismodule(value) or inspect.isclass(value):
        return [type(value).__name__, value.__name__]
    raise TypeError(f"{value!r} has no stable text")
