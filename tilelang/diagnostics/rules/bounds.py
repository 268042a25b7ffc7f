"""Rules about indices that leave their buffer."""

from __future__ import annotations

from dataclasses import replace

from tilelang.diagnostics.problem import Severity
from tilelang.diagnostics.rule import Rule

SLICE_OUT_OF_BOUNDS = Rule(
    "slice-out-of-bounds",
    "bounds",
    Severity.ERROR,
    "a slice of a tile must stay inside the tile",
    "region [{start}, {end}) of {buffer} goes {over} past dimension {dim}, which has {size} elements",
)
SLICE_NEVER_IN_BOUNDS = replace(
    SLICE_OUT_OF_BOUNDS,
    message="region [{start}, {end}) of {buffer} is always outside dimension {dim}, which has {size} elements",
)

INDEX_OUT_OF_BOUNDS = Rule(
    "index-out-of-bounds",
    "bounds",
    Severity.ERROR,
    "an index must stay inside the buffer",
    "index {index} of {buffer} reaches {reached}, dimension {dim} has {size} elements (0 to {last})",
)
INDEX_NEVER_IN_BOUNDS = replace(
    INDEX_OUT_OF_BOUNDS,
    message="index {index} of {buffer} is never inside dimension {dim}, which has {size} elements",
)
INDEX_COUNT = replace(
    INDEX_OUT_OF_BOUNDS,
    message="{buffer} has {rank} dimension(s) {shape}, the subscript has {count} entries",
)
