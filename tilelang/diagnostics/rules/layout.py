"""Rules about fragments: tiles that are spread over the threads of a block."""

from __future__ import annotations

from dataclasses import replace

from tilelang.diagnostics.problem import Severity
from tilelang.diagnostics.rule import Rule

FRAGMENT_CROSS_THREAD = Rule(
    "fragment-cross-thread",
    "layout",
    Severity.ERROR,
    "an iteration may touch only the fragment elements of its own thread",
    "{access} does not use {var} itself, so it may belong to another thread than the iteration: "
    "go through a shared tile (T.alloc_shared, T.copy)",
)
FRAGMENT_DIAGONAL = replace(
    FRAGMENT_CROSS_THREAD,
    message="{access} indexes two dimensions of the fragment with {var}; these elements are not owned by one "
    "thread in order: go through a shared tile (T.alloc_shared, T.copy)",
)
FRAGMENT_TWO_FORMS = replace(
    FRAGMENT_CROSS_THREAD,
    message="this loop touches both {access} and {other}; one thread cannot own both elements in every "
    "iteration: go through a shared tile (T.alloc_shared, T.copy)",
)

FRAGMENT_SERIAL_ACCESS = Rule(
    "fragment-serial-access",
    "layout",
    Severity.HINT,
    "a serial loop over a fragment makes every thread run every iteration",
    "{buffer} is spread over the threads, but {var} of a serial loop indexes it: every thread runs every "
    "iteration; T.Parallel is meant",
)

FRAGMENT_RUNTIME_EXTENT = Rule(
    "fragment-runtime-extent",
    "layout",
    Severity.ERROR,
    "a fragment's extents must be known when the kernel is compiled",
    "dimension {dim} of fragment {buffer} is {size}, known only at run time; registers need constant extents: "
    "use a constant tile and loop over {size}",
)
