"""The settings: `initializationOptions`, and the configuration section `tilelang` on top of them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from tilelang.arch.target import parse_target


@dataclass(frozen=True)
class Settings:
    """What the user chose. The names in JSON are in the comments; what is absent keeps its default."""

    target: str = "cuda:sm_90"  # target: what diagnostics, hovers and budgets are about
    interpreter: str = sys.executable  # interpreter: the Python that runs kernels
    run_timeout_s: float = 60.0  # runTimeout: seconds a run may take
    specialize: Mapping[str, Mapping[str, str]] = field(
        default_factory=dict
    )  # specialize: {kernel: {name: value}}
    trace: str = "off"  # trace: "off", "messages" or "verbose"
    trusted: bool = True  # trusted: false refuses runs
    preview: str = "server"  # preview: "client" if the editor has a command `tilelang.preview` of its own
    generated_source_changed: bool = False  # generatedSourceChanged: wants that notification
    run_finished: bool = False  # runFinished: wants that notification

    def updated(self, options: Any) -> tuple[Settings, list[str]]:
        """These settings with `options` over them, and what was wrong with those that were left out."""
        if not isinstance(options, Mapping):
            return self, []
        complaints: list[str] = []
        changes: dict[str, Any] = {}
        for setting in fields(self):
            value = options.get(_JSON_NAMES.get(setting.name, setting.name))
            if value is None or (value == "" and setting.name == "interpreter"):
                continue
            try:
                changes[setting.name] = _READERS.get(setting.name, _text)(value)
            except (TypeError, ValueError) as error:
                complaints.append(f"tilelang.{_JSON_NAMES.get(setting.name, setting.name)}: {error}")
        return replace(self, **changes), complaints

    def choice(self, *names: str) -> dict[str, str]:
        """The specialisation chosen for a kernel that goes by one of `names`."""
        for name in names:
            if name in self.specialize:
                return dict(self.specialize[name])
        return {}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a text, not {value!r}")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"expected true or false, not {value!r}")
    return value


def _seconds(value: Any) -> float:
    seconds = float(value)
    if not seconds > 0:
        raise ValueError(f"expected a positive number of seconds, not {value!r}")
    return seconds


def _target(value: Any) -> str:
    return parse_target(value).name


def _specialisations(value: Any) -> dict[str, dict[str, str]]:
    if not isinstance(value, Mapping) or not all(isinstance(v, Mapping) for v in value.values()):
        raise TypeError(f'expected {{"kernel": {{"block_M": "128"}}}}, not {value!r}')
    return {str(k): {str(name): str(v) for name, v in choice.items()} for k, choice in value.items()}


_JSON_NAMES = {
    "run_timeout_s": "runTimeout",
    "generated_source_changed": "generatedSourceChanged",
    "run_finished": "runFinished",
}
_READERS = {
    "target": _target,
    "run_timeout_s": _seconds,
    "specialize": _specialisations,
    "trusted": _flag,
    "generated_source_changed": _flag,
    "run_finished": _flag,
}
