"""A model of `argparse`: what a program's options are when it is started without any."""

from __future__ import annotations

from typing import Any

from tilelang.frontend.arguments import Argument
from tilelang.frontend.model import ClassValue, Instance, NativeMethod
from tilelang.frontend.run import Run
from tilelang.ir.values import Unknown

_NAMESPACE = ClassValue("Namespace", {}, ())
_SWITCHES = {"store_true": False, "store_false": True}


def _add_argument(run: Run, owner: Instance, args: list[Argument], kwargs: dict[str, Argument]) -> Any:
    """`parser.add_argument("--block-m", default=64)`: the option `block_m` is 64 unless it is given."""
    names = [a.value for a in args if isinstance(a.value, str)]
    long = next((n for n in names if n.startswith("--")), names[0] if names else "")
    target = kwargs["dest"].value if "dest" in kwargs else long.lstrip("-").replace("-", "_")
    if not isinstance(target, str):
        return None
    value: Any = Unknown(f"the option `{target}` is given when the program is started")
    action = kwargs["action"].value if "action" in kwargs else None
    if "default" in kwargs and not run.context.maybe:
        value = _converted(kwargs["default"].value, kwargs["type"].value if "type" in kwargs else str)
    elif isinstance(action, str) and action in _SWITCHES:
        value = _SWITCHES[action]
    owner.attributes.setdefault("options", {})[target] = value
    return None


def _converted(default: Any, kind: Any) -> Any:
    """A default as the program sees it: one that is a text is read like what is given."""
    if not isinstance(default, str) or kind is str:
        return default
    if kind not in (int, float):
        return Unknown("what `type` makes of the default")
    try:
        return kind(default)
    except ValueError:
        return Unknown("a default that is no number")


def _parse_args(run: Run, owner: Instance, args: list[Argument], kwargs: dict[str, Argument]) -> Any:
    return Instance(_NAMESPACE, dict(owner.attributes.get("options", {})))


def _parse_known(run: Run, owner: Instance, args: list[Argument], kwargs: dict[str, Argument]) -> Any:
    return _parse_args(run, owner, args, kwargs), Unknown("what else the program is given")


def _group(run: Run, owner: Instance, args: list[Argument], kwargs: dict[str, Argument]) -> Any:
    return owner


PARSER = ClassValue(
    "ArgumentParser",
    {
        "add_argument": NativeMethod(_add_argument),
        "parse_args": NativeMethod(_parse_args),
        "parse_known_args": NativeMethod(_parse_known),
        "add_argument_group": NativeMethod(_group),
        "add_mutually_exclusive_group": NativeMethod(_group),
    },
    (),
)
