"""Errors planted in the compiler: a kernel that is right as it is compiled must be found wrong with each."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.emulator.memory import EmulationError

from tvm import tirx as X  # isort: skip


class FoundError(AssertionError):
    """The result differs from the oracle, or the code is slower than the layout promises."""


@dataclass(frozen=True)
class Fault:
    """`owner.name` becomes what `broken` makes of it, and `kernel`, which runs and judges one, shows it."""

    owner: Any
    name: str
    broken: Callable[[Any], Any]
    kernel: Callable[[], object]

    def must_be_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Plant it, and fail unless the emulator or the oracle objects."""
        monkeypatch.setattr(self.owner, self.name, self.broken(getattr(self.owner, self.name)))
        with warnings.catch_warnings(), pytest.raises((EmulationError, FoundError)):
            warnings.simplefilter("ignore", RuntimeWarning)  # what numpy says of poison in sums
            self.kernel()


def same(got: np.ndarray, want: np.ndarray) -> None:
    """Raises FoundError unless both are equal but for rounding."""
    wide = got.astype(np.float32)
    if not np.allclose(wide, want, rtol=4e-3, atol=4e-3):
        raise FoundError(f"{int((~np.isclose(wide, want, rtol=4e-3, atol=4e-3)).sum())} elements differ")


def nothing(at: Any) -> Any:
    """A statement without effect, in place of one that is needed."""
    return X.Evaluate(X.IntImm("int32", 0), at)
