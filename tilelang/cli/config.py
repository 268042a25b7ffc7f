"""`[tool.tilelang]` in pyproject.toml, as the commands use it: what cannot be read is wrong usage."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tilelang.arch.target import Target
from tilelang.cli.usage import UsageError
from tilelang.facts.project import DEFAULT_TARGET, Project, ProjectError, Projects


def config_for(file: Path, projects: Projects | None = None) -> Project:
    """The settings of the nearest pyproject.toml with a [tool.tilelang] at or above `file`, else none.

    Raises UsageError that names the key and what may stand there.
    """
    try:
        return (projects or Projects()).of(file)
    except ProjectError as error:
        raise UsageError(str(error)) from None


def target_for(file: Path, chosen: Target | None) -> Target:
    """The target chosen on the command line, else the project's, else the default. Raises UsageError."""
    return chosen or config_for(file).target or DEFAULT_TARGET


def choice_for(file: Path, kernel: str, chosen: Mapping[str, str]) -> dict[str, str]:
    """The values of a kernel's parameters: those `chosen` on the command line over the project's. Raises
    UsageError.
    """
    return {**config_for(file).choice(kernel, kernel.rpartition(".")[2]), **chosen}
