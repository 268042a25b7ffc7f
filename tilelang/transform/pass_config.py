"""Names of pass configurations (`jit.pass_configs`), and their mapping in one spelling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilelang.jit.pass_configs import PassConfigKey, key_name

__all__ = ["PassConfigKey", "normalize_pass_configs"]


def normalize_pass_configs(pass_configs: Mapping[str | PassConfigKey, Any] | None) -> dict[str, Any]:
    """The same configurations, keyed by the keys' texts."""
    return {key_name(key): value for key, value in (pass_configs or {}).items()}
