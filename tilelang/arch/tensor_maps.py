"""What a descriptor for TMA can say, as the driver numbers it (CUDA driver API, cuTensorMapEncodeTiled)."""

from __future__ import annotations

from collections.abc import Mapping

MOST_DIMENSIONS, MOST_BOX = 5, 256
# CUtensorMapDataType -> (name, bits of an element). Those that flush denormals or round to TF32 are left out.
DATA_TYPES: Mapping[int | None, tuple[str, int]] = {
    0: ("uint8", 8),
    1: ("uint16", 16),
    2: ("uint32", 32),
    3: ("int32", 32),
    4: ("uint64", 64),
    5: ("int64", 64),
    6: ("float16", 16),
    7: ("float32", 32),
    8: ("float64", 64),
    9: ("bfloat16", 16),
}
SWIZZLE_BYTES = (0, 32, 64, 128)  # CUtensorMapSwizzle -> bytes of an atom's row
