"""Outputs for which there is no memory are named."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.on_device import DEVICES
from tests.runtime.plans import plan, tensor
from tilelang.runtime.artifact import Artifact
from tilelang.runtime.launch import LoadedKernel

PLAN = plan(tensor("A", "M", strides=("s",)), tensor("B", "M", 2**24), outputs=(1,), entry="spread")


def spread(kind: str) -> LoadedKernel:
    made = plan(*PLAN.params, outputs=PLAN.outputs, entry="spread", kind=kind)
    return LoadedKernel(Artifact("spread", kind, made, source="", language="tirx"))


def test_on_the_cpu() -> None:
    said = r"spread could not allocate B of shape \(1073741824, 16777216\) in float32 on cpu: "
    with pytest.raises(RuntimeError, match=said):
        spread("cpu")(torch.zeros(1).expand(2**30))
    with pytest.raises(MemoryError, match=said):
        spread("cpu")(np.broadcast_to(np.zeros(1, np.float32), (2**30,)))


@pytest.mark.parametrize("device", [d for d in DEVICES if d.id == "gpu"])
def test_on_the_gpu(device: str) -> None:
    with pytest.raises(torch.OutOfMemoryError, match="spread could not allocate B of shape"):
        spread("cuda")(torch.zeros(1, device=device).expand(2**30))
