"""Notes in the log about the phases of a compilation, as TILELANG_JIT_DIAGNOSTICS=1 asks for them."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tilelang.env import env

_log = logging.getLogger(__name__)


def diagnostics_enabled(*, verbose: bool = False) -> bool:
    """Whether phases are noted: the environment asks for it, or the kernel is compiled verbosely."""
    return verbose or env.is_jit_diagnostics_enabled()


@contextmanager
def jit_phase(
    name: str, *, enabled: bool | None = None, verbose: bool = False, **context: object
) -> Iterator[None]:
    """Note in the log when a phase begins and how many seconds it took, with what `context` says about it."""
    if not (diagnostics_enabled(verbose=verbose) if enabled is None else enabled):
        yield
        return
    about = "".join(f" {key}={value}" for key, value in context.items())
    _log.info("start of %s%s", name, about)
    start = time.perf_counter()
    try:
        yield
    finally:
        _log.info("end of %s after %.3f s%s", name, time.perf_counter() - start, about)
