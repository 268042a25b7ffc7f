"""What costs time without being wrong: work done for nothing, and resources that run short."""

from __future__ import annotations

from dataclasses import replace

from tilelang.diagnostics.problem import Severity
from tilelang.diagnostics.rule import Rule

NEVER_READ = Rule(
    "never-read",
    "performance",
    Severity.HINT,
    "A tile that is never read can go.",
    "{buffer} is written but never read",
)
NEVER_USED = replace(NEVER_READ, message="{buffer} is allocated but never used")

REGISTER_PRESSURE = Rule(
    "register-pressure",
    "performance",
    Severity.WARNING,
    "Fragments that a loop carries along must fit into the registers of the threads.",
    "the loop carries at least {count} registers per thread, {target} has {limit}: {parts}, over {threads} "
    "threads; what does not fit is spilled to slow local memory: use more threads or smaller tiles",
)
REGISTERS_ALIVE = replace(
    REGISTER_PRESSURE,
    level=Severity.HINT,
    message="{count} registers per thread are in use at one time, {target} has {limit}: {parts}, over "
    "{threads} threads; what does not fit is spilled to slow local memory",
)

LOW_OCCUPANCY = Rule(
    "low-occupancy",
    "performance",
    Severity.HINT,
    "Few warps on a multiprocessor cannot hide each other's waiting.",
    "{blocks} of {threads} threads at a time on a multiprocessor, {warps} of its {most} warps: {cause}",
)

MISSING_PIPELINE = Rule(
    "missing-pipeline",
    "performance",
    Severity.HINT,
    "A loop that loads tiles and multiplies them can load ahead.",
    "every iteration of {var} waits for {tiles}: T.Pipelined with num_stages loads the next tiles while "
    "these are multiplied",
)

SMALL_GEMM_TILE = Rule(
    "small-gemm-tile",
    "performance",
    Severity.HINT,
    "Small tiles load more than they multiply.",
    "a tile of M={m}, N={n} gives {ratio:.0f} multiplications for each element it loads, 128×128 gives 64: "
    "larger tiles read the tensors fewer times",
)

UNCOALESCED_ACCESS = Rule(
    "uncoalesced-access",
    "performance",
    Severity.HINT,
    "Neighbouring threads should touch neighbouring elements of global memory.",
    "{last} is the last variable of T.Parallel, so neighbouring threads touch {buffer} a row apart: a warp "
    "moves {sectors} pieces of {size} bytes where {needed} would do; let {along} be the last, or go through "
    "a shared tile",
)

UNCOALESCED_STRIDE = replace(
    UNCOALESCED_ACCESS,
    message="neighbouring threads touch {buffer} {apart}: a warp moves {sectors} pieces of {size} bytes "
    "where {needed} would do; let neighbouring threads take neighbouring elements of a row, or bring whole "
    "rows to a shared tile with T.copy",
)

BANK_CONFLICT = Rule(
    "bank-conflict",
    "performance",
    Severity.HINT,
    "Threads of a warp that touch one bank of shared memory take turns.",
    "{degree} threads of a warp touch different words of one bank of {buffer}, so the access takes {degree} "
    "turns: rows of {padded} elements instead of {row} begin in different banks",
)
BANK_CONFLICT_STRIDE = replace(
    BANK_CONFLICT,
    message="{degree} threads of a warp touch different words of one bank of {buffer}, so the access takes "
    "{degree} turns: neighbouring threads should touch neighbouring elements",
)
