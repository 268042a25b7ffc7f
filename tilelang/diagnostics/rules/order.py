"""Rules about what must come before what, and what may stand inside what."""

from __future__ import annotations

from dataclasses import replace

from tilelang.diagnostics.problem import Severity
from tilelang.diagnostics.rule import Rule

UNINITIALISED_ACCUMULATOR = Rule(
    "uninitialised-accumulator",
    "order",
    Severity.WARNING,
    "T.gemm adds to the accumulator, which must hold something first.",
    "{buffer} is uninitialised here and T.gemm adds to it: call T.clear({buffer}) before, "
    "or pass clear_accum=True",
)
READ_BEFORE_WRITE = Rule(
    "read-before-write",
    "order",
    Severity.WARNING,
    "A tile must be written before it is read.",
    "{buffer} is read here, but nothing was written to it",
)
READ_BEFORE_FIRST_WRITE = replace(
    READ_BEFORE_WRITE,
    message="{buffer} is read here before line {line} writes it for the first time: fill it before the loop",
)
READ_OF_NEW_OUTPUT = replace(
    READ_BEFORE_WRITE,
    message="{buffer} is read here, but it is an output{why}: each call allocates it anew, so it holds "
    "nothing",
)
READ_PARTLY_WRITTEN = replace(
    READ_BEFORE_WRITE,
    message="{missing} of dimension {dim} of {buffer} is read here, but nothing was written there",
)
READ_OF_UNASSIGNED = replace(
    READ_BEFORE_WRITE,
    message="{buffer} is read here, but nothing is ever assigned to it, so it is 0: the assignment is "
    "missing; write `init=0` where 0 is meant",
)
READ_UNWRITTEN_ELEMENT = replace(
    READ_BEFORE_WRITE,
    message="{buffer}[{element}] is read here, but the conditions of all writes before leave it out: fill "
    "{buffer} first, or read under the same condition",
)

NOTHING_WRITTEN = Rule(
    "nothing-written",
    "order",
    Severity.WARNING,
    "A kernel should write to a tensor.",
    "nothing that this kernel computes is written to a tensor: copy or store the result",
)

STALE_TILE = Rule(
    "stale-tile",
    "order",
    Severity.WARNING,
    "A loop that goes through a tensor again has to load its pieces again.",
    "every step of the loop over {var} reads the piece of {buffer} that line {line} loaded in the last step "
    "of its own loop: load the piece of each step with T.copy",
)

IDLE_LOOP = Rule(
    "idle-loop",
    "order",
    Severity.WARNING,
    "A loop should do something.",
    "this loop does nothing: its body writes to no tile and no tensor",
)
IDLE_VARIABLES = replace(
    IDLE_LOOP,
    message="all {count} iterations store the same: nothing in the loop uses {names}, as "
    "{buffer}[{names}] would",
)

UNUSED_RESULT = Rule(
    "unused-result",
    "order",
    Severity.WARNING,
    "What is loaded or computed should reach something that the kernel writes.",
    "{buffer} is written at line {line}, but nothing reads it: the statement that uses it is missing, or "
    "names another tile",
)
UNUSED_UPDATE = replace(
    UNUSED_RESULT,
    message="{buffer} is read only to compute {whom}, and nothing that the kernel writes depends on it: "
    "the statement that uses it is missing, or names another tile",
)

UNREAD_WRITE = replace(
    UNUSED_RESULT,
    message="nothing reads what is written to {buffer} here: the statement that uses it is missing, or this "
    "one was to write to another tile",
)
UNREAD_BEFORE_OVERWRITTEN = replace(
    UNUSED_RESULT,
    message="nothing reads what is written to {buffer} here before line {line} overwrites it: the statement "
    "that uses it is missing, or this one was to write to another tile",
)

UNUSED_VARIABLE = replace(
    UNUSED_RESULT,
    level=Severity.HINT,
    message="{buffer} is set at line {line}, but nothing reads it: the statement that uses it is missing, or "
    "names another variable",
)

CONSTANT_TILE = Rule(
    "constant-tile",
    "order",
    Severity.WARNING,
    "A tile that is computed with should hold more than its start value.",
    "{buffer} holds only {value} here, from line {line}: nothing computes into it",
)

CONSTANT_EXTREME = replace(
    CONSTANT_TILE,
    message="{buffer} begins at {value} (line {line}), and the {what} of that and any other value is "
    "{value}: begin at {start}",
)

UNREAD_TENSOR = Rule(
    "unread-tensor",
    "order",
    Severity.WARNING,
    "A tensor is never touched, and another one of its shape stands in its place.",
    "{other} is read twice at one place here, and {tensor}, of the same shape, nowhere: one of the two was "
    "to be {tensor}",
)
LOADED_TWICE = replace(
    UNREAD_TENSOR,
    message="{first} and {second} are loaded with the same piece of {other}, and {tensor}, of the same "
    "shape, is never read: one of the two was to hold {tensor}",
)
NAMED_AFTER_ANOTHER = replace(
    UNREAD_TENSOR,
    message="{tile} is loaded from {other}, and {tensor}, after which it is called, is never read",
)

ONLINE_SOFTMAX = Rule(
    "online-softmax",
    "order",
    Severity.WARNING,
    "A running maximum and the sums that are measured against it belong together.",
    "{buffer} stands in an exponent, but holds exponentials or a sum of them (line {line}): the exponent is "
    "the difference of a score and a maximum, or of two maxima",
)
SUM_IN_EXPONENT = ONLINE_SOFTMAX
MAXIMUM_BEHIND = replace(
    ONLINE_SOFTMAX,
    message="{old} is the maximum before this step, which line {line} brings up to date: subtract {maximum}, "
    "or the exponentials are measured against another maximum than their sum",
)
MAXIMUM_BEHIND_LOOP = replace(
    ONLINE_SOFTMAX,
    message="{old} is the maximum before the last step of the loop: behind it {maximum} holds that of all "
    "(line {line})",
)
MAXIMUM_OVERWRITTEN = replace(
    ONLINE_SOFTMAX,
    message="a sum of exponentials is written to {maximum}, which is the running maximum (line {line}): the "
    "tile that adds them up is meant",
)
MAXIMUM_AS_FACTOR = replace(
    ONLINE_SOFTMAX,
    message="{target} is multiplied by {maximum}, a maximum that begins at minus infinity: the exponential "
    "of old less new maximum is meant",
)
MASKED_ROW = replace(
    ONLINE_SOFTMAX,
    message="row {row} of {rows} of the first block keeps no score at all, so that {maximum} stays at minus "
    "infinity there, and exp(-inf - -inf) is not a number: this condition hides too much",
)
SUM_TIMES_ITSELF = replace(
    ONLINE_SOFTMAX,
    message="{target} is multiplied by itself in each step: the exponential of old less new maximum is meant",
)
NOT_EXPONENTIATED = replace(
    ONLINE_SOFTMAX,
    message="{scores} holds scores here, and its sum is added to a sum of exponentials: exp({scores} - "
    "{maximum}) comes before",
)
NOT_RESCALED = replace(
    ONLINE_SOFTMAX,
    message="{total} adds up {what} over all steps, each measured against another {maximum}: multiply "
    "{total} by the exponential of old less new maximum in each step",
)

OVERWRITTEN_IN_LOOP = Rule(
    "overwritten-in-loop",
    "order",
    Severity.WARNING,
    "What an iteration writes should be read before the next one replaces it.",
    "{buffer} is replaced in every iteration of {var} and read only behind the loop, at line {line}: of all "
    "iterations only the last one counts",
)

OUTPUT_NOT_WRITTEN = Rule(
    "output-not-written",
    "order",
    Severity.WARNING,
    "An output starts uninitialised, so the kernel must write all of it.",
    "{buffer} is returned, but nothing is written to it",
)
OUTPUT_PARTLY_WRITTEN = replace(
    OUTPUT_NOT_WRITTEN,
    message="{missing} of dimension {dim} of {buffer}, which has {size} elements, is never written{when}",
)

NESTED_TILE_OP = Rule(
    "nested-tile-op",
    "order",
    Severity.ERROR,
    "A tile operation is carried out by the whole block and cannot stand in T.Parallel.",
    "{op} is carried out by all threads of the block, but stands in a T.Parallel loop, whose iterations "
    "are spread over them: move it out of the loop",
)
DIVERGENT_TILE_OP = Rule(
    "divergent-tile-op",
    "order",
    Severity.ERROR,
    "The threads of a block do a tile operation together, so all of them must reach it.",
    "{op} is done by many threads together, but a condition on the thread lets only some of them come "
    "here; for {target} this compiler shares it out among whole warps side by side, and loops over shared "
    "and global memory among any range of threads: take it out of the branch",
)
TOO_MANY_TEAMS = replace(
    DIVERGENT_TILE_OP,
    message="the threads that come here need a barrier of their own, and all 16 of the block are taken by "
    "others (T.sync_threads with a number not known at compile time takes them all)",
)
UNMET_EXCHANGE = replace(
    DIVERGENT_TILE_OP,
    message="{op} touches what other threads touched just before in the same branch, and {threads}, which "
    "alone come here, have no barrier of their own: take it out of the branch",
)
FRAGMENT_OF_A_TEAM = replace(
    DIVERGENT_TILE_OP,
    message="{buffer} belongs to {first}, whose code works on it, and to {other} as well: a fragment is "
    "spread over one team of threads; give each its own, and pass data on through shared memory",
)
UNSUPPORTED_NESTING = Rule(
    "unsupported-nesting",
    "order",
    Severity.ERROR,
    "T.Pipelined cannot stand in T.Parallel.",
    "T.{inner} stands in T.{outer}, whose iterations are spread over the threads: swap the loops",
)
PIPELINED_WRITE_AFTER_READ = Rule(
    "pipelined-write-after-read",
    "order",
    Severity.WARNING,
    "A pipelined tile is refilled only after it was used, so its copy cannot run ahead.",
    "{buffer} is read at line {line} before this copy refills it in the same iteration, so the copy cannot "
    "be prefetched: copy first, or use num_stages=0",
)
NOT_PREFETCHED = Rule(
    "not-prefetched",
    "order",
    Severity.HINT,
    "What keeps a pipelined loop, or one of its copies, from running ahead.",
    "{tile} is not prefetched: {cause}",
)
NOTHING_TO_PREFETCH = replace(
    NOT_PREFETCHED,
    message="num_stages={stages} has no effect: {cause}",
)
STAGES_BELOW_ZERO = replace(
    NOT_PREFETCHED,
    level=Severity.WARNING,
    message="num_stages={stages} is no number of stages: the loop over {loop} is not pipelined, as with 0",
)
PIPELINE_SCHEDULE_LENGTH = Rule(
    "pipeline-schedule",
    "order",
    Severity.ERROR,
    "A schedule by hand has one entry per statement and runs no reader before its writer.",
    "`{name}` has {given} entries, but the loop over {loop} has {count} statements: one entry per statement, "
    "in the order of the text",
)
PIPELINE_SCHEDULE_TWICE = replace(
    PIPELINE_SCHEDULE_LENGTH,
    message="statements {first} and {second} of the loop both have place {place} in `order`: each needs one "
    "of its own",
)
PIPELINE_SCHEDULE_DEPENDENCE = replace(
    PIPELINE_SCHEDULE_LENGTH,
    message="statement {writer} writes {buffer} and statement {reader} reads it, but `{name}` gives them "
    "{first} and {second}: the reader would run first",
)
PARALLEL_REDUCTION_RACE = Rule(
    "parallel-reduction-race",
    "order",
    Severity.ERROR,
    "Iterations of T.Parallel that update one element race.",
    "iterations {first} and {second} both read, change and write back {access} at the same time, so one of "
    "the changes is lost: use {reduction}a serial loop over {vars}",
)
PARALLEL_REDUCTION_WHERE = replace(
    PARALLEL_REDUCTION_RACE,
    level=Severity.WARNING,
    message="iterations {first} and {second} both read, change and write back {access} where the condition "
    "of {where} holds for both, so one of the changes is lost: use {instead}",
)
PRIVATE_REDUCTION = replace(
    PARALLEL_REDUCTION_RACE,
    level=Severity.WARNING,
    message="{buffer} is private to each thread, so after the loop each holds what its own iterations of "
    "{vars} made, and line {line} writes one of these: use {instead}",
)
PARALLEL_WRITE_RACE = Rule(
    "parallel-write-race",
    "order",
    Severity.WARNING,
    "Iterations of T.Parallel that write different values to one element race.",
    "iterations {first} and {second} both write {access}, with different values, and either may be the last",
)
PARALLEL_WRITE_HINT = replace(
    PARALLEL_WRITE_RACE,
    level=Severity.HINT,
    message="iterations {first} and {second} both write {access}; unless the values are equal, either may be "
    "the last",
)
THREAD_WRITE_RACE = replace(
    PARALLEL_WRITE_RACE,
    message="threads {first} and {second} both write {access}, with different values, and either may be the "
    "last: let one of them write it, or give each an element of its own",
)
THREAD_UPDATE_RACE = replace(
    PARALLEL_WRITE_RACE,
    message="threads {first} and {second} both read, change and write back {access} at the same time, so one "
    "of the changes is lost: use T.atomic_add or its like, or let one of them do it",
)
PARALLEL_READ_RACE = Rule(
    "parallel-read-race",
    "order",
    Severity.WARNING,
    "An iteration of T.Parallel must not read what another one writes.",
    "iteration {reader} reads {access}, which iteration {writer} of the same loop writes, before or after: "
    "read into another buffer first, or write to one",
)
BLOCK_WRITE_RACE = Rule(
    "block-write-race",
    "order",
    Severity.WARNING,
    "Blocks that write different values to one place race.",
    "the blocks for all values of {var} write the same part of {buffer}, but what they write depends on "
    "{var}, and any of them may be the last: use {var} in the index, loop over it inside the block, or add "
    "partial sums with T.atomic_add",
)
BLOCK_SET_RACE = replace(
    BLOCK_WRITE_RACE,
    message="the blocks for all values of {var} set the same part of {buffer} that {op} then updates: a "
    "block that begins late undoes what others have done; set it before the launch, or wait with "
    "T.sync_grid",
)
BLOCK_UPDATE_RACE = replace(
    BLOCK_WRITE_RACE,
    message="the blocks for all values of {var} read, change and write back the same elements of {buffer} at "
    "the same time, so changes are lost: use {var} in the index, loop over it inside the block, or update "
    "them with T.atomic_add or its like",
)
DIVERGENT_BARRIER = Rule(
    "divergent-barrier",
    "order",
    Severity.ERROR,
    "A barrier must be reached by all threads of the block or by none.",
    "{barrier} waits for all threads of {whom}, but `{condition}` lets only some of them come here: "
    "move it out of the branch",
)
BARRIER_IN_DIVERGENT_LOOP = replace(
    DIVERGENT_BARRIER,
    message="{barrier} waits for all threads of {whom}, but the loop runs `{condition}` times, which "
    "is not the same for all of them: move it out of the loop",
)
BARRIER_AFTER_JUMP = replace(
    DIVERGENT_BARRIER,
    message="{barrier} waits for all threads of {whom}, but those for which `{condition}` leave the "
    "iteration before they come here: move it before the jump",
)
GRID_BARRIER_OF_SOME = replace(
    DIVERGENT_BARRIER,
    message="T.sync_grid waits for every block of the grid, but `{condition}` lets only some of them come "
    "here: move it out of the branch",
)
GRID_BARRIER_IN_UNEVEN_LOOP = replace(
    DIVERGENT_BARRIER,
    message="T.sync_grid waits for every block of the grid, but the loop runs `{condition}` times, which is "
    "not the same for all of them: give all blocks as many steps",
)
UNSYNCHRONISED_EXCHANGE = Rule(
    "unsynchronised-exchange",
    "order",
    Severity.WARNING,
    "Threads that exchange values through memory need a barrier between writing and reading.",
    "thread {reader} reads {access}, which thread {writer} writes in the same branch; only some threads come "
    "here, so the compiler cannot place a barrier between the two: end the branch before the read",
)
UNSYNCHRONISED_LOOP = replace(
    UNSYNCHRONISED_EXCHANGE,
    message="thread {reader} reads {access}, which thread {writer} writes in the same loop; it has "
    "`{extents}` steps, not as many for all threads, so no barrier can stand between the two: give all as "
    "many steps",
)
DONE_OUTSIDE_LAUNCH = Rule(
    "outside-launch",
    "order",
    Severity.ERROR,
    "Beside several launches, or one under a condition, only what is computed may stand outside of T.Kernel.",
    "{what} outside of T.Kernel, in a function that launches several times or under a condition: no launch "
    "would do it; move it into one",
)
CHANGED_BY_LAUNCH = replace(
    DONE_OUTSIDE_LAUNCH,
    message="{buffer} is read outside of T.Kernel and written in a launch; each thread of a launch reads it "
    "for itself, before or after: read a tensor that no launch writes, or read {buffer} inside of T.Kernel",
)
LOOP_AROUND_LAUNCH = replace(
    DONE_OUTSIDE_LAUNCH,
    message="how often {loop} runs is known only when the kernel runs, but a launch per iteration is "
    "prepared beforehand, and nothing runs outside of T.Kernel: put the loop into the launch, or call the "
    "kernel in a loop",
)
ENDLESS_WAIT = Rule(
    "endless-wait",
    "order",
    Severity.WARNING,
    "A barrier that threads wait for should open: all arrivals come, in the phase that is asked for.",
    "{who} wait here for ever{when}: {come} of {count} arrivals come at {barrier} in the phase of parity "
    "{parity}; {why}",
)
UNMET_EXPECTATION = Rule(
    "unmet-expectation",
    "order",
    Severity.WARNING,
    "A barrier should wait only for bytes that a copy brings.",
    "the {bytes} bytes that are expected here never come, so the wait at line {line} does not end: {why}",
)
