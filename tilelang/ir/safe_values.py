"""What reads outside of a tensor give: T.annotate_safe_value, as an attribute of the tile function."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tvm import tirx as X

SAFE_VALUES = "tl.safe_values"  # attribute of the function: JSON, tensor name -> number


def safe_values(func: X.PrimFunc) -> Mapping[str, float]:
    """What T.annotate_safe_value says, by the name of the tensor."""
    if not func.attrs or SAFE_VALUES not in func.attrs:
        return {}
    return json.loads(str(func.attrs[SAFE_VALUES]))
