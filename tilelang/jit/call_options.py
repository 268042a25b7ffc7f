"""Keywords of a kernel's call that say how it is launched, beside inputs by their names."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from tilelang.runtime.plan import LaunchPlan

# As the backends of release 0.1.15 have them. Checks of known shapes cost nothing, so none are skipped.
_OPTIONS = ("stream", "skip_tensor_validation")


def take_options(plan: LaunchPlan, named: dict[str, Any]) -> dict[str, Any]:
    """Remove those keywords from `named`, unless a parameter has the name, and return them."""
    names = {p.name for p in plan.params}
    return {name: named.pop(name) for name in _OPTIONS if name in named and name not in names}


def on_stream(stream: Any, args: Sequence[Any]) -> contextlib.AbstractContextManager[Any]:
    """Torch's current stream while a kernel is launched: `stream` is a torch stream or a raw handle.

    None and -1 mean the current one; of kernels on the CPU, any does.
    """
    device = next((a.device for a in args if getattr(a, "is_cuda", False)), None)
    if device is None or stream is None or (isinstance(stream, int) and stream == -1):
        return contextlib.nullcontext()
    import torch

    if not isinstance(stream, int):
        return torch.cuda.stream(stream)
    if stream == 0:
        return torch.cuda.stream(torch.cuda.default_stream(device))
    return torch.cuda.stream(torch.cuda.ExternalStream(stream, device))
