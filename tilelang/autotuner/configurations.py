"""The configurations to try, from the forms in which authors write them."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Configuration = dict[str, Any]
Configurations = Iterable[Mapping[str, Any]] | Mapping[str, Any] | Callable[..., Any]


def expand(configs: Configurations, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Configuration]:
    """The configurations as a list of keyword arguments.

    configs: a list of mappings; a mapping from each parameter to the list of its values, of which every
    combination is tried; or a function that returns either. A function is given the call's arguments, as many
    as it takes. Raises ValueError when there is none, TypeError for other forms and entries.
    """
    written: Any = _ask(configs, args, kwargs) if callable(configs) else configs
    if isinstance(written, Mapping):
        found = _combinations(written)
    elif not isinstance(written, Iterable):
        raise TypeError(
            f"configs is {written!r}; expected a list of mappings such as {{'block_M': 128}}, a mapping from "
            f"parameters to lists, or a function that returns either"
        )
    else:
        found = []
        for number, entry in enumerate(written):
            if not isinstance(entry, Mapping):
                raise TypeError(
                    f"configuration {number} is {entry!r}; expected a mapping such as {{'block_M': 128}}"
                )
            found.append(dict(entry))
    if not found:
        raise ValueError("No configurations to tune: configs of @tilelang.autotune is empty")
    return found


def _ask(configs: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Call `configs` with the arguments of the kernel's call, or with none if it takes none."""
    parameters = inspect.signature(configs).parameters.values()
    if not parameters:
        return configs()
    takes_all = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
    names = {p.name for p in parameters}
    own = {k: v for k, v in kwargs.items() if takes_all or k in names}
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        return configs(*args, **own)
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    count = sum(p.kind in positional for p in parameters)
    return configs(*args[:count], **own)


def _combinations(values: Mapping[str, Any]) -> list[Configuration]:
    """Every combination of the listed values; a value that is not listed stands in all of them."""
    lists = [v if isinstance(v, list | tuple) else [v] for v in values.values()]
    return [dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*lists)]
