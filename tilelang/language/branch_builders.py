"""Conditions and loops as builders write them: `with T.If(c):` around `with T.Then():`, `T.While`."""

from __future__ import annotations

from typing import Any

from tilelang.language.values import OutsideKernelError


def If(condition: Any) -> Any:
    """`with T.If(condition):` around `with T.Then():` and maybe `with T.Else():`: `if` and `else`."""
    raise OutsideKernelError("If")


def Then() -> Any:
    """`with T.Then():` what happens where the condition of the surrounding `with T.If(...)` holds."""
    raise OutsideKernelError("Then")


def Else() -> Any:
    """`with T.Else():` what happens where the condition of the surrounding `with T.If(...)` does not hold."""
    raise OutsideKernelError("Else")


def While(condition: Any) -> Any:
    """`with T.While(condition):` the same as `while condition:`."""
    raise OutsideKernelError("While")
