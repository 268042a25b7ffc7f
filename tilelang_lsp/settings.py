"""The settings, in one place: what they are called, what they mean, how they are read.

Defaults, then `initializationOptions`, then the configuration section `tilelang` over them, read anew when it
changes. Target, rules and specialisations that are set nowhere are those of the project's pyproject.toml.
`package.json` of the VS Code extension is generated from `PEOPLE`; a test fails when it is stale.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tilelang.arch.target import parse_target
from tilelang.diagnostics.registry import RULES
from tilelang.diagnostics.selection import RuleSelection, rule_names
from tilelang.facts.project import DEFAULT_TARGET, Project, read_specialisations


@dataclass(frozen=True)
class Settings:
    """What the user and the client chose; the names in JSON are those of `_READERS`."""

    target: str | None = None  # None: the project decides
    select: frozenset[str] | None = None
    ignore: frozenset[str] | None = None
    specialisations: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    interpreter: str = sys.executable
    run_timeout_s: float = 60.0
    trace: str = "off"  # or "messages" or "verbose"
    trusted: bool = True
    preview: str = "server"  # "client": the editor has a command `tilelang.preview` of its own
    generated_source_changed: bool = False
    run_finished: bool = False

    def updated(self, options: Any) -> tuple[Settings, list[str]]:
        """These settings with `options` over them, and what was wrong with those that were left out.

        What is null or an empty text takes its default again.
        """
        if not isinstance(options, Mapping):
            return self, []
        complaints: list[str] = []
        changes: dict[str, Any] = {}
        for name, (attribute, read) in _READERS.items():
            if name not in options:
                continue
            value = options[name]
            try:
                changes[attribute] = getattr(_DEFAULTS, attribute) if value in (None, "") else read(value)
            except (TypeError, ValueError) as error:
                complaints.append(f"tilelang.{name}: {error}")
        return replace(self, **changes), complaints

    def over(self, project: Project) -> Chosen:
        """What counts for a file of `project`: the editor's settings go over it."""
        return Chosen(
            self.target or (project.target or DEFAULT_TARGET).name,
            project.rules.over(self.select, self.ignore),
            {**project.specialisations, **self.specialisations},
        )


@dataclass(frozen=True)
class Chosen:
    """What one file is checked for and with, and which rules are shown."""

    target: str
    rules: RuleSelection
    specialisations: Mapping[str, Mapping[str, str]]

    def choice(self, *names: str) -> dict[str, str]:
        """The specialisation chosen for a kernel that goes by one of `names`."""
        found = next((self.specialisations[n] for n in names if n in self.specialisations), {})
        return dict(found)


_DEFAULTS = Settings()


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


def _rules(value: Any) -> frozenset[str]:
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise TypeError(f"expected a list of rules and families, not {value!r}")
    return rule_names(value)


_READERS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "target": ("target", _target),
    "select": ("select", _rules),
    "ignore": ("ignore", _rules),
    "specialisations": ("specialisations", read_specialisations),
    "interpreter": ("interpreter", _text),
    "runTimeout": ("run_timeout_s", _seconds),
    "trace": ("trace", _text),
    "trusted": ("trusted", _flag),
    "preview": ("preview", _text),
    "generatedSourceChanged": ("generated_source_changed", _flag),
    "runFinished": ("run_finished", _flag),
}


def vscode_properties() -> dict[str, Any]:
    """`contributes.configuration.properties` of the VS Code extension."""
    return {f"tilelang.{name}": schema for name, schema in PEOPLE.items()}


def _rule_list(text: str) -> dict[str, Any]:
    families = list(dict.fromkeys(rule.family for rule in RULES.values()))
    described = {family: f"All rules of the family {family}." for family in families}
    described |= {name: rule.summary for name, rule in sorted(RULES.items())}
    names = {"type": "string", "enum": list(described), "enumDescriptions": list(described.values())}
    return {
        "scope": "resource",
        "type": ["array", "null"],
        "items": names,
        "uniqueItems": True,
        "default": None,
        "markdownDescription": text,
    }


# What people set, as VS Code's schema. `path`, `args` and `trace.server` are for the extension alone.
PEOPLE: Mapping[str, dict[str, Any]] = {
    "path": {
        "scope": "machine-overridable",
        "type": "string",
        "default": "",
        "markdownDescription": "Path of the `tilelang-lsp` executable. Empty: the first of the interpreter's "
        "own, and the one on `PATH`.",
    },
    "args": {
        "scope": "machine-overridable",
        "type": "array",
        "items": {"type": "string"},
        "default": [],
        "markdownDescription": "Further arguments for the server.",
    },
    "interpreter": {
        "scope": "machine-overridable",
        "type": "string",
        "default": "",
        "markdownDescription": "Python interpreter in which kernels run, and whose server is started if it "
        "has one. Empty: the interpreter selected in the Python extension.",
    },
    "target": {
        "scope": "resource",
        "type": "string",
        "default": "",
        "markdownDescription": "Target that kernels are checked for, such as `cuda:sm_80`, `hip:gfx942`, "
        f"`metal` or `cpu`. Empty: what `pyproject.toml` says, else `{DEFAULT_TARGET.name}`.",
    },
    "select": _rule_list(
        "Rules and families that are shown, all others are not. Null: what `pyproject.toml` says, else all."
    ),
    "ignore": _rule_list(
        "Rules and families that are not shown. Null: what `pyproject.toml` says, else none. A comment "
        "`# tilelang: ignore[rule]` silences a single line."
    ),
    "specialisations": {
        "scope": "resource",
        "type": "object",
        "default": {},
        "additionalProperties": {
            "type": "object",
            "additionalProperties": {"type": ["string", "number", "boolean"]},
        },
        "markdownDescription": "Values of kernel parameters and sizes, over those the file gives: "
        '`{"gemm": {"block_M": 128, "dtype": "float16"}}`. They go over those in `pyproject.toml`.',
    },
    "runTimeout": {
        "scope": "resource",
        "type": "number",
        "default": int(_DEFAULTS.run_timeout_s),
        "minimum": 1,
        "markdownDescription": "Seconds after which a run is ended.",
    },
    "trace.server": {
        "scope": "window",
        "type": "string",
        "enum": ["off", "messages", "verbose"],
        "default": "off",
        "markdownDescription": "Log the messages between editor and server.",
    },
}
