"""What all templates share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields
from typing import Any, TypeVar

from tilelang.arch.dtypes import dtype_info
from tilelang.carver.arch import (
    TileDevice,
    auto_infer_current_arch,
    is_ampere_arch,
    is_cdna_arch,
    is_volta_arch,
)
from tilelang.carver.roller.hint import Hint

_T = TypeVar("_T", bound="BaseTemplate")
_DEFAULT_COUNT = 10


class BaseTemplate(ABC):
    """An operator of known sizes: `template.with_arch(arch).recommend_hints(topk=10)`."""

    _arch: TileDevice | None = None

    def with_arch(self: _T, arch: TileDevice) -> _T:
        """The template itself, for that device."""
        self._arch = arch
        return self

    def has_arch(self) -> bool:
        return self._arch is not None

    @property
    def arch(self) -> TileDevice:
        """The device; that of the default target if none was given."""
        if self._arch is None:
            self._arch = auto_infer_current_arch()
        return self._arch

    def recommend_hints(self, topk: int = _DEFAULT_COUNT) -> list[Hint]:
        """At most `topk` configurations, the one expected to be fastest first."""
        return self.get_hardware_aware_configs(self.arch, topk)

    def get_hardware_aware_configs(self, arch: TileDevice, topk: int = _DEFAULT_COUNT) -> list[Hint]:
        """As `recommend_hints`, for `arch`."""
        found = sorted(self.candidates(arch), key=lambda h: h.estimated_time)[:topk]
        for hint in found:
            hint.arch = arch
        return found

    def is_volta_arch(self) -> bool:
        return is_volta_arch(self.arch)

    def is_ampere_arch(self) -> bool:
        return is_ampere_arch(self.arch)

    def is_cdna_arch(self) -> bool:
        return is_cdna_arch(self.arch)

    @property
    def class_attributes(self) -> dict[str, Any]:
        """The sizes and dtypes that make this operator, by their names."""
        return {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]

    def params_as_dict(self) -> dict[str, Any]:
        """As `class_attributes`."""
        return self.class_attributes

    @abstractmethod
    def candidates(self, arch: TileDevice) -> list[Hint]:
        """Every configuration that fits the device, with its estimated time."""

    @abstractmethod
    def equivalent_function(self) -> Any:
        """The operator as a TIRX function of plain loops."""


def dtype_bytes(dtype: Any) -> int:
    """Bytes of one element."""
    return max(1, dtype_info(dtype).bits // 8)


def powers_of_two(low: int, high: int) -> list[int]:
    """low, 2 low, ... up to `high`."""
    found = []
    while low <= high:
        found.append(low)
        low *= 2
    return found
