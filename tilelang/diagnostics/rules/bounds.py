"""Rules about indices that leave their buffer."""

from __future__ import annotations

from dataclasses import replace

from tilelang.diagnostics.problem import Severity
from tilelang.diagnostics.rule import Rule

SLICE_OUT_OF_BOUNDS = Rule(
    "slice-out-of-bounds",
    "bounds",
    Severity.ERROR,
    "A slice of a tile must stay inside the tile.",
    "region [{start}, {end}) of {buffer} leaves dimension {dim}, which has {size} elements",
)
SLICE_NEVER_IN_BOUNDS = replace(
    SLICE_OUT_OF_BOUNDS,
    level=Severity.WARNING,
    message="region [{start}, {end}) of {buffer} is always outside dimension {dim}, which has {size} "
    "elements",
)

INDEX_OUT_OF_BOUNDS = Rule(
    "index-out-of-bounds",
    "bounds",
    Severity.ERROR,
    "An index must stay inside the buffer.",
    "index {index} of {buffer} reaches {reached}, dimension {dim} has {size} elements",
)
INDEX_CONSTANT_OUT_OF_BOUNDS = replace(
    INDEX_OUT_OF_BOUNDS,
    message="index {index} of {buffer} is outside dimension {dim}, which has {size} elements",
)
INDEX_NEVER_IN_BOUNDS = replace(
    INDEX_OUT_OF_BOUNDS,
    level=Severity.WARNING,
    message="index {index} of {buffer} is never inside dimension {dim}, which has {size} elements",
)
INDEX_PAST_TABLE = replace(
    INDEX_OUT_OF_BOUNDS,
    level=Severity.WARNING,
    message="with the last {var} {index} is {reached}, past the {size} elements of {buffer}: the guarded "
    "read gives 0, which decides {use}",
)

INDEX_LET_THROUGH = replace(
    INDEX_OUT_OF_BOUNDS,
    level=Severity.WARNING,
    message="this lets {index} be {size}, but dimension {dim} of {buffer} has {size} elements and ends one "
    "before: compare with `<`",
)
MISPLACED_GUARD = Rule(
    "misplaced-guard",
    "bounds",
    Severity.WARNING,
    "A condition should keep an index below the size of the dimension that it walks.",
    "this keeps {index} below {bound}, the size of dimension {other} of {buffer}, but the index walks "
    "dimension {dim}: compare with {right}",
)
GUARD_ELSEWHERE = replace(
    MISPLACED_GUARD,
    message="this keeps {compared} below {size}, but the index into dimension {dim} of {buffer}, which has "
    "{size} elements, is {index}: compare that",
)
INDEX_GROWS = replace(
    INDEX_OUT_OF_BOUNDS,
    level=Severity.WARNING,
    message="index {index} of {buffer} grows with {var}, of which there are {blocks}: with enough blocks it "
    "leaves dimension {dim}, which has {size} elements",
)

INDEX_WIDTH = Rule(
    "index-width",
    "bounds",
    Severity.WARNING,
    "32-bit arithmetic on block and loop numbers that passes 2^31 wraps around.",
    "{value} reaches {reached} ({where}), and a 32-bit integer ends at 2147483647: compute it in 64 bits, "
    "with {prefix}int64({var})",
)
NEGATIVE_INDEX = Rule(
    "negative-index",
    "bounds",
    Severity.HINT,
    "An index from memory that is tested for negative values elsewhere, and used without the test here.",
    "index {index} of {buffer} may be negative: line {line} tests {source} for it, and nothing guards "
    "{scope} memory here",
)

GUARDED_TAIL = Rule(
    "guarded-tail",
    "bounds",
    Severity.HINT,
    "Where a tile may reach past a tensor, the compiler adds a guard.",
    "guarded tail: {region} may reach past {ends}; what lies outside {outside}",
    informs=True,
)
PARTLY_USED = Rule(
    "partly-used",
    "bounds",
    Severity.WARNING,
    "A dimension is used only in part, where the kernel itself says that all of it counts.",
    "no block {does} {missing} of dimension {dim} ({name}) of {buffer}{when}, while dimension {other_dim} of "
    "{other}, which is {name} too, is used whole",
)
PARTLY_COUNTED = replace(
    PARTLY_USED,
    message="{var} stops short of dimension {dim} ({name}) of {buffer}, which is named here: no block {does} "
    "{missing}{when}",
)
PARTLY_COUNTED_FROM = replace(
    PARTLY_USED,
    message="{var} begins behind the first tile of dimension {dim} ({name}) of {buffer}, which is named "
    "here: no block {does} {missing}{when}",
)
SHORT_PASS = replace(
    PARTLY_USED,
    message="this loop leaves out {missing} of dimension {dim} ({name}) of {buffer}{when}, through which the "
    "loop at line {line} goes from end to end",
)
GAPS_BETWEEN = replace(
    PARTLY_USED,
    message="{steps} steps of {var} leave a gap of one step in every {distance} elements of dimension {dim} "
    "({name}) of {buffer}: no block {does} {missing}{when}",
)
ENDS_OF_TWO = replace(
    PARTLY_USED,
    message="{var} stops one tile before the end of {buffer} and of {other}: no block {does} {missing} of "
    "dimension {dim} of {buffer}, nor of dimension {other_dim} of {other}",
)
ROUNDED_DOWN = replace(
    PARTLY_USED,
    message="this loop has {steps} steps, rounded down, and line {line} counts T.ceildiv({what}, {tile}): "
    "what {tile} leaves over of {what} is left out here",
)
SWAPPED_CEILDIV = replace(
    PARTLY_USED,
    message="{var} goes through dimension {dim} of {buffer} in steps of {block}, of which it has "
    "T.ceildiv({size}, {block}): the arguments of T.ceildiv are the wrong way round",
)
ONE_BLOCK_OF_MANY = replace(
    PARTLY_USED,
    message="{var} is always 0, since the grid has one block along it, but it walks dimension {dim} ({name}) "
    "of {buffer}: no block {does} {missing}{when}",
)
DIAGONAL_USED = replace(
    PARTLY_USED,
    message="{var} indexes dimensions {dim} and {second} of {buffer} together, so that no block {does} what "
    "lies off the diagonal, while {other} of the same dimensions is used whole",
)

SAME_IN_ALL_BLOCKS = Rule(
    "same-in-all-blocks",
    "bounds",
    Severity.WARNING,
    "Blocks compute one product several times and write it to several places.",
    "{var} chooses where {buffer} is written, but nothing that is computed depends on it: all blocks along "
    "{var} make the same product",
)
MISPLACED_RESULT = Rule(
    "misplaced-result",
    "bounds",
    Severity.WARNING,
    "Elements of one dimension are written to another block of that dimension.",
    "{to} takes what comes from {source}",
)

ONE_ROW_FOR_ALL = Rule(
    "one-row-for-all",
    "bounds",
    Severity.WARNING,
    "A loop over all rows uses the statistic of one row for each of them.",
    "{access} is the value of one row, but this loop goes over all {count}: index {buffer} with {var}, as "
    "what is written here is",
)

WRONG_VARIABLE = Rule(
    "wrong-variable",
    "bounds",
    Severity.WARNING,
    "An index does not fit its tensor, and another variable or order would fit exactly.",
    "{var} does not go through dimension {dim} of {buffer}, which has {size} elements, and {right} would go "
    "through exactly all of them",
)
SWAPPED_INDEX = replace(
    WRONG_VARIABLE,
    message="{region} {does} only a part of {buffer}, and more than there is elsewhere: with the indices of "
    "dimensions {first} and {second} swapped it would be exactly all",
)
CROSSED_TILES = replace(
    WRONG_VARIABLE,
    message="dimension {first} of {buffer} goes on in steps of {step}, and {var}, which is added to them, "
    "counts {extent}; in dimension {second} it is the other way round: {var} and {other} have changed places",
)
INTERLEAVED = replace(
    WRONG_VARIABLE,
    message="{buffer} is touched at {index}, and line {line} goes to {usual}: the two variables have changed "
    "places in one of them",
)
BLOCK_IN_TILE = replace(
    WRONG_VARIABLE,
    message="{buffer} is a tile of one block, but {var} counts the blocks: {right} indexes dimension {dim} "
    "of {other} beside it",
)

PARTLY_READ = Rule(
    "partly-read",
    "bounds",
    Severity.WARNING,
    "A tile is loaded whole, but only one element of a dimension is ever read.",
    "only element {element} of dimension {dim} of {tile} is ever read, though line {line} loads all {size}",
)
UNEVEN_GRID = Rule(
    "uneven-grid",
    "bounds",
    Severity.WARNING,
    "One axis of a grid leaves the last part of a block out, another one counts it.",
    "{var} counts only whole blocks of {step}, so that up to {most} elements of dimension {dim} ({size}) of "
    "{buffer} are never written, while {other} is counted by T.ceildiv",
)
UNEVEN_LAUNCH = replace(
    UNEVEN_GRID,
    message="{var} counts only whole blocks of {step}, so that up to {most} elements of dimension {dim} "
    "({size}) of {buffer} are never written, while another launch counts the last part of {size} too",
)

GRID_ORDER = Rule(
    "grid-order",
    "bounds",
    Severity.WARNING,
    "Block variables stand for other dimensions than the grid counts.",
    "{first} counts {first_extent} blocks but walks dimension {first_dim} of {buffer} ({first_size}), and "
    "{second} counts {second_extent} but walks dimension {second_dim} ({second_size}): swap the two in the "
    "grid or in the index",
)
LOOP_ORDER = replace(
    GRID_ORDER,
    message="{first} counts {first_extent} but walks dimension {first_dim} of {buffer} ({first_size}), and "
    "{second} counts {second_extent} but walks dimension {second_dim} ({second_size}): swap the two in the "
    "index, or the sizes of {buffer}",
)
GRID_COUNT = replace(
    GRID_ORDER,
    message="{var} counts {extent} blocks, which is dimension {counted} of {buffer} ({counted_size}), but "
    "walks dimension {dim} ({size}) alone: count that one in the grid, or walk the other",
)
MOSTLY_OUTSIDE = Rule(
    "mostly-outside",
    "bounds",
    Severity.WARNING,
    "Much of what a loop or grid reads lies outside the tensor.",
    "of {count} steps of {var}, {outside} read nothing but zeros outside dimension {dim} of {buffer}, which "
    "has {size} elements{when}; {var} stays inside {other}",
)
MASK_AND_LOOP = Rule(
    "mask-and-loop",
    "bounds",
    Severity.WARNING,
    "A condition on a position and the loop it stands in count the same elements.",
    "this condition never hides anything: the loop over {var} goes through {length} // {tile} whole tiles, "
    "and what is left of {length} is never visited: count with T.ceildiv({length}, {tile})",
)
KEEPS_ONE_MORE = replace(
    MASK_AND_LOOP,
    message="this condition keeps the element at {length} too, one more than the {length} that the loop over "
    "{var} goes through in tiles of {tile}: compare with `<`",
)
KEEPS_THE_REST = replace(
    MASK_AND_LOOP,
    message="this condition keeps only what lies past the {length} elements that the loop over {var} goes "
    "through in tiles of {tile}: it is the wrong way round",
)
FIRST_LEFT_OUT = replace(
    MASK_AND_LOOP,
    message="the loop over {var} begins with its second step, so that of the {length} elements that this "
    "condition keeps the first {tile} are never visited",
)
LOOP_PAST_END = Rule(
    "loop-past-end",
    "bounds",
    Severity.WARNING,
    "A loop should end where the tensors end that it walks.",
    "of {count} steps of {var}, {steps} behind dimension {dim} of {buffer}, which has {size} elements{when}, "
    "and {does}",
)
