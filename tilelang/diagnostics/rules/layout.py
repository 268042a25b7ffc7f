"""Rules about fragments: tiles that are spread over the threads of a block."""

from __future__ import annotations

from dataclasses import replace

from tilelang.diagnostics.problem import Severity
from tilelang.diagnostics.rule import Rule

FRAGMENT_CROSS_THREAD = Rule(
    "fragment-cross-thread",
    "layout",
    Severity.ERROR,
    "An iteration may touch only the fragment elements of its own thread.",
    "{access} is not in step with {var}: as the fragment is spread over the threads of {target}, "
    "some iterations run on another thread than the one that holds it: "
    "use a shared copy of the fragment here (T.alloc_shared, T.copy)",
)
FRAGMENT_DIAGONAL = replace(
    FRAGMENT_CROSS_THREAD,
    message="{access} indexes two dimensions of the fragment with {var}; a loop cannot be spread over the "
    "threads of {target} along such a diagonal: use a shared copy of the fragment here (T.alloc_shared, "
    "T.copy)",
)
FRAGMENT_TWO_FORMS = replace(
    FRAGMENT_CROSS_THREAD,
    message="this loop touches both {access} and {other}: as the fragment is spread over the threads of "
    "{target}, two of them hold these elements in some iterations: "
    "use a shared copy of the fragment here (T.alloc_shared, T.copy)",
)

FRAGMENT_SERIAL_ACCESS = Rule(
    "fragment-serial-access",
    "layout",
    Severity.HINT,
    "A serial loop over a fragment makes every thread run every iteration.",
    "{buffer} is spread over the threads, but {var} of a serial loop indexes it: every thread runs every "
    "iteration; T.Parallel is meant",
)
FRAGMENT_SERIAL_ORDER = replace(
    FRAGMENT_SERIAL_ACCESS,
    message="{buffer} is spread over the threads, but {var} of a serial loop, whose iterations build on each "
    "other, indexes it: every thread holds all of it and runs every iteration; T.reduce_sum, T.cumsum and "
    "their like share the work out",
)

FRAGMENT_RUNTIME_EXTENT = Rule(
    "fragment-runtime-extent",
    "layout",
    Severity.ERROR,
    "A fragment's extents must be known when the kernel is compiled.",
    "dimension {dim} of {buffer} is {size}, known only at run time; registers need constant extents: "
    "use a constant tile and loop over {size}",
)
FRAGMENT_RUNTIME_LOOP = replace(
    FRAGMENT_RUNTIME_EXTENT,
    message="{var} runs over {size}, known only at run time, and indexes the fragment {buffer}; on {target} "
    "such a loop needs constant extents: loop over the fragment's extent and guard with `if {var} < {size}`",
)

SHARED_RUNTIME_EXTENT = replace(
    FRAGMENT_RUNTIME_EXTENT,
    message="dimension {dim} of the shared tile {buffer} is {size}, known only at run time; on "
    "{target} shared memory is laid out when the kernel is compiled: use a constant tile and "
    "loop over {size}, or T.const",
)
TILE_WITHOUT_SIZE = replace(
    FRAGMENT_RUNTIME_EXTENT,
    message="dimension {dim} of {buffer} is {size}, which has no value here: give {names} a value "
    "(-D {example}=..., or `# tilelang: specialize({example}=...)` above the kernel)",
)

FRAGMENT_LAYOUT = Rule(
    "fragment-layout",
    "layout",
    Severity.ERROR,
    "All uses of a fragment must agree on which thread holds which element.",
    "no distribution of {buffer} over the threads puts every element this statement touches into the thread "
    "that needs it: use a shared copy of {buffer} here (T.alloc_shared, T.copy)",
    by_lowering=True,
)
FRAGMENT_LAYOUT_CONFLICT = replace(
    FRAGMENT_LAYOUT,
    message="{buffer} is laid out by {cause}, {other} by {other_cause}: their elements lie in different "
    "threads, and this statement needs them in one; {cure}",
)
FRAGMENT_PLACES = replace(
    FRAGMENT_LAYOUT,
    message="{element} and {other} lie in different threads, and this statement needs them in one: copy "
    "{buffer} to a shared tile (T.alloc_shared, T.copy) and read that",
)
FRAGMENT_PINNED_TWICE = replace(
    FRAGMENT_LAYOUT,
    message="{buffer} would need two distributions over the threads: one for {first}, another for {second} "
    "here; copy it into a fragment of its own for one of them{cure}",
)
FRAGMENT_ANNOTATION = replace(
    FRAGMENT_LAYOUT,
    message="the layout annotated for {buffer} cannot be kept: it must number {threads} threads and their "
    "registers without gaps, each power of an index going to one of the two",
)
LOOP_ANNOTATION = replace(
    FRAGMENT_LAYOUT,
    message="the loop_layout cannot be kept: it must number {threads} threads and the iterations of each "
    "without gaps, each power of an index going to one of the two",
)
LOOP_SHAPE = replace(
    FRAGMENT_LAYOUT, message="the loop runs over ({extents}), its loop_layout is for ({given})"
)
FRAGMENT_VIEW = replace(
    FRAGMENT_LAYOUT,
    message="{buffer} is a view of a fragment, which {target} spreads over the threads in its own shape: "
    "copy it into a shared tile (T.alloc_shared, T.copy) and reshape that",
)

LAYOUT_NOT_INJECTIVE = Rule(
    "layout-not-injective",
    "layout",
    Severity.ERROR,
    "An annotated layout gives each element a place of its own.",
    "the layout of {buffer} puts {first} and {second} at one {place}; each of its {count} elements needs a "
    "place of its own",
)

REDUCER_UPDATE = Rule(
    "reducer-update",
    "layout",
    Severity.ERROR,
    "A reducer is updated in T.Parallel, at an index of the loop's variables, by a fold of the old value.",
    "this update of the reducer {buffer} cannot be shared out among threads: {why}",
)
