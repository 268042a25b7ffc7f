"""T.create_tma_descriptor, T.tma_load, T.ptx_cp_async_bulk and stores by name, run by the emulator and
compiled.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.cuda.bulk_products import matrices, moved
from tests.cuda.kernels import lower_text, random
from tests.emulator.block import run
from tests.emulator.memory import EmulationError, poison
from tilelang.analysis.check import check_source
from tilelang.runtime.plan import LaunchPlan
from tilelang.targets.driver import build

TEXT = (Path(__file__).parent / "bulk_products.py").read_text()
MATRICES = TEXT.replace("def moved", "def unused").replace("def matrices", "def moved")
CASES = [
    {},
    {"dtype": "float32", "code": 7, "columns": 32, "shift": 3},
    {"swizzle": 0, "columns": 8},
    {"dtype": "float32", "code": 2, "swizzle": 1, "columns": 8, "shift": 0},
]
needs_sm_90 = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0), reason="needs an sm_90 GPU"
)


def named(choice):
    return "-".join(f"{k}={v}" for k, v in choice.items()) or "plain"


def lowered(text=TEXT, **choice):
    return lower_text(text, "cuda:sm_90", **{k: repr(v) for k, v in choice.items()})


def shifted(a, by):
    want = np.zeros_like(a)
    want[: len(a) - by] = a[by:]
    return want


@pytest.mark.parametrize("choice", CASES, ids=named)
def test_boxes_in_and_out(choice, rng):
    a = random(rng, (40, 72), choice.get("dtype", "float16"))
    b = poison(a.shape, choice.get("dtype", "float16"))
    run(lowered(**choice), {"A": a, "B": b}, {"M": 40, "N": 72})
    assert (b == shifted(a, choice.get("shift", 1))).all()


def test_neighbouring_bytes_without_a_descriptor(rng):
    a = random(rng, (96, 64), "float16")
    b = poison(a.shape, "float16")
    kernel = lowered(plain=True, shift=32, swizzle=0)
    assert [m.tensor for m in kernel.plan.descriptors] == ["B"]
    with pytest.raises(EmulationError, match="of 6144 elements"):
        run(kernel, {"A": a, "B": b}, {"M": 96, "N": 64})
    assert (b[:64] == a[32:]).all()


def test_registers_as_matrices(rng):
    a, b = random(rng, (4, 32, 8), "float16"), poison((4, 4, 8, 8), "float16")
    for turned in (False, True):
        run(lowered(only(MATRICES), turned=turned), {"A": a, "B": b})
        want = a.reshape(4, 8, 4, 4, 2).transpose(0, 3, 1, 2, 4).reshape(4, 4, 8, 8)
        assert (b == (want.transpose(0, 1, 3, 2) if turned else want)).all()


def only(text):
    """The module with the second kernel alone."""
    head, _, rest = text.partition("@tilelang.jit")
    return head + "@tilelang.jit" + rest.partition("@tilelang.jit")[2]


def test_descriptors_are_data_of_the_plan():
    kernel = lowered(swizzle=2, columns=32)
    (load, store) = kernel.plan.descriptors
    assert (load.dtype, load.shape, load.strides, load.box) == ("float16", ("N", "M"), ("N * 2",), (32, 32))
    assert (load.swizzle, load.promotion, load.fill, store.tensor) == (64, 2, 0, "B")
    assert LaunchPlan.from_json(kernel.plan.to_json()) == kernel.plan
    source = kernel.source.text
    assert (
        "const __grid_constant__ TensorMap A_map" in source and "tma_load_2d_hint(tile, full, A_map" in source
    )


def test_the_sources_compile():
    assert build(lowered()).binary and build(lowered(plain=True)).binary
    assert build(lowered(only(MATRICES), turned=True)).binary


WRONG = [
    ("code, 2, X", "17, 2, X", "the data type is one of 0 uint8"),
    ("code, 2, X", "code, 6, X", "a rank from 1 to 5"),
    ("X.data", "X", ""),
    (
        "columns, box_rows, 1, 1,",
        "columns, 512, 1, 1,",
        "an extent of the box must be a number from 1 to 256",
    ),
    ("columns, box_rows, 1, 1,", "columns, box_rows, 2, 1,", "a step between elements must be 1, not 2"),
    ("columns, box_rows, 1, 1,", "12, box_rows, 1, 1,", "a multiple of 16 bytes and at most the 128"),
    ("columns, box_rows, 1, 1,", "128, box_rows, 1, 1,", "128 elements are 256"),
    ("1, 1, 0, swizzle", "1, 1, 0, 4", "the swizzle must be a number from 0 to 3, not 4"),
    ("by * 32 + shift, 1)", "1)", "2 coordinates and a policy; 5 arguments are given"),
    ("by * 32 + shift, 1)", "by * 32 + shift, 3)", "the eviction policy is 0, 1 or 2, not 3"),
    ("bx * columns, by * 32, 0, 0)", "bx * columns, by * 32, 1, 0)", "use_tma=True"),
    (
        "T.tma_load(of(A, 32), full[0]",
        "T.tma_load(of(A, 32), tile",
        "must be a barrier made by T.alloc_barrier",
    ),
]


@pytest.mark.parametrize(("old", "new", "said"), WRONG, ids=[w[1] for w in WRONG])
def test_what_cannot_be(old, new, said):
    assert old in TEXT
    problems = check_source("kernel.py", TEXT.replace(old, new, 1), "cuda:sm_90").all_problems()
    grave = [p for p in problems if p.rule == "bad-arguments"]
    assert any(said in p.message for p in grave) if said else not grave, problems


def test_other_targets_have_none():
    text = TEXT.replace('(target="cuda -arch=sm_90a")', "")
    found = check_source("kernel.py", text, "cuda:sm_80").all_problems()
    assert {"T.create_tma_descriptor", "T.tma_load"} <= {p.message.split()[0] for p in found}


@pytest.mark.gpu
@needs_sm_90
@pytest.mark.parametrize("choice", CASES, ids=named)
def test_boxes_on_a_device(choice):
    a = torch.randn(40, 72, device="cuda").to(getattr(torch, choice.get("dtype", "float16")))
    want = torch.zeros_like(a)
    by = choice.get("shift", 1)
    want[: 40 - by] = a[by:]
    assert torch.equal(moved(a, **choice), want)


@pytest.mark.gpu
@needs_sm_90
def test_registers_as_matrices_on_a_device():
    a = torch.randn(4, 32, 8, device="cuda", dtype=torch.float16)
    want = a.reshape(4, 8, 4, 4, 2).permute(0, 3, 1, 2, 4).reshape(4, 4, 8, 8)
    assert torch.equal(matrices(a), want)
    assert torch.equal(matrices(a, turned=True), want.transpose(2, 3))
