"""Explicit thread code against torch: on the CPU, on a GPU, in the emulator, and through every toolchain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.emit.host_run import needs_clang
from tests.emulator.block import run
from tests.emulator.memory import poison
from tests.on_device import DEVICES, compiled_for, random
from tests.threads import kernels
from tilelang.arch.target import Target, parse_target
from tilelang.diagnostics.error import KernelError
from tilelang.frontend.environments.specialise import trace_static
from tilelang.frontend.environments.static_module import StaticModule
from tilelang.jit.compiling import prim_func_of
from tilelang.targets.cuda.toolchain import compile_source, nvcc, nvrtc
from tilelang.targets.driver import lower
from tilelang.targets.hip.toolchain import assembly
from tilelang.targets.lowered import LoweredKernel

_TEXT = Path(kernels.__file__).read_text()
_WARP = 32


@dataclass(frozen=True)
class Case:
    """A kernel of `kernels.py`, its inputs, and what it must give."""

    name: str
    inputs: tuple[torch.Tensor, ...]
    expected: Callable[..., Any]
    sizes: dict[str, int] = field(default_factory=dict)
    lacking: tuple[str, ...] = ()  # kinds of targets that have no hardware for it


def lanes(x: torch.Tensor, source: Callable[[int], int]) -> torch.Tensor:
    return torch.stack([x[source(t)] for t in range(len(x))])


def _shuffles(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    def up(t: int, n: int) -> int:
        return t - n if t % _WARP >= n else t

    c = torch.stack(
        [
            lanes(a, lambda t: t ^ 3),
            lanes(a, lambda t: up(t, 5)),
            lanes(a, lambda t: t + 5 if t % _WARP + 5 < _WARP else t),
            lanes(a, lambda t: t // _WARP * _WARP + 7),
            lanes(a, lambda t: t + 3 if t % 8 + 3 < 8 else t),
            lanes(a, lambda t: t // 16 * 16 + 2),
        ]
    )
    shifted = lanes(b, lambda t: up(t, 1))
    d0 = lanes(b, lambda t: t ^ 1) + lanes(shifted, lambda t: t // _WARP * _WARP + t % _WARP // 2)
    number = torch.arange(64)
    return c, torch.stack([d0, (number % 32 + 100 * (number // 32)).int()])


def _warps(x: torch.Tensor, of: Callable[[torch.Tensor], Any]) -> torch.Tensor:
    return torch.cat([torch.full((_WARP,), int(of(w)), dtype=torch.int64) for w in x.split(_WARP)])


def _bits(flags: torch.Tensor) -> int:
    return sum(1 << k for k, f in enumerate(flags.tolist()) if f)


def _votes(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    def fold(w: torch.Tensor, step: Callable[[int, int], int]) -> int:
        result = int(w[0])
        for v in w[1:].tolist():
            result = step(result, v)
        return result

    full = torch.ones(96, dtype=torch.int64)
    b = [
        _warps(a, lambda w: (w > 0).any()),
        _warps(a, lambda w: (w > 0).all()),
        full * int((a > 0).sum()),
        full * int((a >= 0).all()),
        full * int((a > 1000).any()),
        _warps(a, torch.max),
        _warps(a, torch.min) + _warps(a, torch.sum),
        _warps(a, lambda w: fold(w, int.__or__)),
        _warps(a + 8, lambda w: fold(w, int.__and__)),
    ]
    c = [_warps(a, lambda w: _bits(w > 0)), _warps(a, lambda w: _bits(w == 2))]
    return torch.stack(b).int(), torch.stack(c)


def _part_of_a_warp(a: torch.Tensor) -> tuple[torch.Tensor, ...]:
    def warps(x: torch.Tensor, of: Callable[[torch.Tensor], Any]) -> torch.Tensor:
        return torch.cat([torch.full((len(w),), float(of(w)), dtype=torch.float64) for w in x.split(_WARP)])

    def fold(x: torch.Tensor, step: Callable[[int, int], int]) -> torch.Tensor:
        return warps(x, lambda w: reduce(step, w.tolist()))

    b = torch.stack(
        [
            warps(a, torch.sum),
            warps(a, torch.max) + warps(a, lambda w: _bits(w > 20)),
            warps(a + 100, torch.min),
            fold(a + 64, int.__and__),
            fold(a, int.__or__) + lanes(a, lambda t: t ^ 15),
        ]
    )
    first = a[:16].float()
    c = torch.stack([(first / 2).sum().expand(16), (-first - 3).max().expand(16)])
    return b.int(), c, warps(a[:42], torch.min).int()


def _matches(a: torch.Tensor) -> torch.Tensor:
    same = torch.cat([torch.tensor([_bits(w == v) for v in w]) for w in a.split(_WARP)])
    return torch.stack([same, torch.where(same == 0xFFFFFFFF, same, 0)])


def _elected(a: torch.Tensor) -> torch.Tensor:
    t = torch.arange(256)
    return ((t % 64 == 0).int() + (t == 0).int() * 10 + t // 128 * 100 + t // 32 * 1000 + a).int()


def _uneven(a: torch.Tensor) -> torch.Tensor:
    t = torch.arange(128)
    turns = t // 32 + 1
    n = turns * lanes(a, lambda k: k ^ 1) + turns * (turns - 1) // 2
    for warp in n.split(_WARP):
        while (warp < 9).any():
            warp += 1
    return n.int()


def _jumps(a: torch.Tensor) -> torch.Tensor:
    return torch.tensor([sum(i for i in range(min(int(n), 20)) if i != 5) for n in a], dtype=torch.int32)


_INTS = torch.arange(64, dtype=torch.int32)
_LOOPS = [18, 30, 34, 0, 4 * 7 + 2 * 5 * 8, 4 * 15, 4, 4]


def _loops(a: torch.Tensor) -> torch.Tensor:
    n = x = 5
    while True:
        n += 1
        if n % 7 == 0 or n == 18:
            continue
        if n > 20:
            break
        x += 1
    _LOOPS[3] = x * 100 + n
    return torch.tensor(_LOOPS)


def _grid_steps(a: torch.Tensor) -> torch.Tensor:
    b = a + 1
    for k in range(2):
        b = b.roll(-1, 0) + 3 * a + k
    return b + a


CASES = [
    Case("block_sum", (random(512),), lambda a: a.view(4, 128).sum(1), {"N": 512}),
    Case("transpose", (random(40, 40),), lambda a: a.T, {"N": 40}),
    Case(
        "gemv",
        (random(10, 500, dtype=torch.float16), random(500, dtype=torch.float16)),
        lambda a, x: a.float() @ x.float(),
        {"N": 10, "K": 500},
        ("hip",),  # a row of 32 threads is no wavefront there
    ),
    Case("reversed_sums", (random(8, 64),), lambda a: a.flip(1).cumsum(0) + a),
    Case("tiles_and_threads", (random(64, 64),), lambda a: a.flip(1) + 1),
    Case("jumps", (_INTS,), _jumps),
    Case("shuffles", (random(64), _INTS * 3), _shuffles, lacking=("hip",)),
    Case("warp_sums", (random(4, 256),), lambda a: a.sum(1)),
    Case("votes", (torch.arange(96, dtype=torch.int32) % 40 - 1,), _votes, lacking=("metal", "hip")),
    Case("part_of_a_warp", (torch.arange(48, dtype=torch.int32) % 31 + 7,), _part_of_a_warp),
    Case(
        "matches",
        (torch.tensor([5] * 32 + [1, 2] * 16, dtype=torch.int32),),
        _matches,
        lacking=("metal", "hip"),
    ),
    Case("elected", (torch.zeros(256, dtype=torch.int32),), _elected),
    Case("uneven_meetings", (torch.arange(128, dtype=torch.int32) % 5,), _uneven, lacking=("hip",)),
    Case(
        "named_barriers",
        (random(128),),
        lambda a: torch.cat([a[64:].flip(0), a[:64].flip(0)]),
        lacking=("cpu", "metal", "hip"),
    ),
    Case(
        "grid_of_three",
        (torch.arange(24, dtype=torch.int32).view(2, 3, 4),),
        lambda a: (a * 100 + torch.arange(24).view(2, 3, 4) + 33).int(),
    ),
    Case("persistent_loop", (random(10, 9),), lambda a: a + 1),
    Case("persistent_scheduler", (random(8, 6),), lambda a: a + 1),
    Case("own_scheduler", (random(10, 10),), lambda a: a.flip(1).diag()),
    Case(
        "macros_and_classes",
        (_INTS,),
        lambda a: torch.stack([a.cumsum(0) + 1, a * 8, a.cumsum(0) * 6 + 3]).int(),
    ),
    Case("tiles_by_macro", (random(16, 32),), lambda a: a.sum(1)),
    Case("loops", (_INTS,), _loops),
    Case(
        "foreign",
        (random(128),),
        lambda a: a.flip(0) + 5,
        lacking=("cpu", "metal", "hip", "emulator"),
    ),
    Case(
        "library_functions",
        (random(128),),
        lambda a: a.abs() + a.exp2(),
        lacking=("metal", "hip", "emulator"),
    ),
    Case("async_copies", (random(6, 256),), lambda a: a.flip(1), lacking=("metal", "hip")),
    Case(
        "barriers_by_hand",
        (random(4, 128),),
        lambda a: a.flip(1),
        lacking=("cpu", "metal", "hip", "sm_80"),
    ),
    Case(
        "allreduce",
        (random(8, 64), random(64)),
        lambda a, x: (a @ x, torch.stack([(a @ x).max(), (a @ x).sum() * 16])),
    ),
    Case(
        "clusters",
        (torch.arange(8, dtype=torch.int32),),
        lambda a: a * 10 + a % 2 + a // 2 * 1100 + 14220000,
        lacking=("cpu", "metal", "hip", "emulator", "sm_80"),
    ),
    Case("warp_groups", (random(2, 300),), lambda a: torch.stack([a[1] + 1, a[0] * 2])),
    Case("grid_steps", (random(8, 64),), _grid_steps, lacking=("metal", "hip", "emulator")),
    Case(
        "three_launches",
        (random(20, 32),),
        lambda a: (a.exp2(), a.exp2().sum(1), a[0].exp2() / a[0].exp2().sum()),
        {"N": 20},
    ),
]


NOT_ON_HIP = (
    "matches",
    "named_barriers",
    "grid_steps",
    "library_functions",
    "async_copies",
    "barriers_by_hand",
    "clusters",
)


def cases(kind: str) -> Any:
    return pytest.mark.parametrize("case", [c for c in CASES if kind not in c.lacking], ids=lambda c: c.name)


def lowered(case: Case, target: str) -> LoweredKernel:
    """From the text alone, as the editor does."""
    module = StaticModule(kernels.__file__, _TEXT)
    assert not module.problems, module.problems
    chosen = parse_target(target)
    kernel = next(k for k in module.kernels if k.qualified_name == case.name)
    program = trace_static(module, kernel, {k: str(v) for k, v in case.sizes.items()})
    return lower(prim_func_of(program, chosen, _TEXT), chosen)


def check(found: Any, wanted: Any) -> None:
    several = isinstance(wanted, tuple)
    for f, w in zip(found if several else (found,), wanted if several else (wanted,), strict=True):
        f = f.cpu()
        f = f.to(torch.int64) if not f.is_floating_point() else f
        w = w.to(torch.int64) if not w.is_floating_point() else w
        torch.testing.assert_close(f, w, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_against_torch(case: Case, device: str) -> None:
    if device in case.lacking:
        with pytest.raises(KernelError, match="missing-on-target"):
            compiled_for(getattr(kernels, case.name), device)(*case.inputs)
        return
    inputs = [x.to(device) for x in case.inputs]
    check(compiled_for(getattr(kernels, case.name), device)(*inputs), case.expected(*case.inputs))


@cases("emulator")  # which runs block after block
def test_emulated(case: Case) -> None:
    kernel = lowered(case, "cuda:sm_90" if "sm_80" in case.lacking else "cuda:sm_80")
    wanted = case.expected(*case.inputs)
    given = [x.numpy().copy() for x in case.inputs]
    results = wanted if isinstance(wanted, tuple) else (wanted,)
    names = [p.name for p in kernel.plan.params]
    outputs = [
        poison(tuple(w.shape), kernel.plan.params[len(given) + k].dtype) for k, w in enumerate(results)
    ]
    run(kernel, dict(zip(names, [*given, *outputs], strict=True)))
    found = [torch.from_numpy(o.astype(np.int64) if o.dtype.kind in "ui" else o) for o in outputs]
    check(tuple(found) if isinstance(wanted, tuple) else found[0], wanted)


@pytest.mark.toolchain
@pytest.mark.skipif(nvrtc() is None and nvcc() is None, reason="no CUDA compiler on this machine")
@pytest.mark.parametrize("target", ["cuda:sm_80", "cuda:sm_90"])
@cases("cuda")
def test_cuda_compiles(case: Case, target: str) -> None:
    if target.partition(":")[2] in case.lacking:
        with pytest.raises(KernelError, match="needs an NVIDIA GPU from sm_90 on"):
            lowered(case, target)
        return
    compile_source(lowered(case, target).source, parse_target(target))


@pytest.mark.toolchain
@needs_clang
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
@pytest.mark.parametrize("case", [c for c in CASES if c.name not in NOT_ON_HIP], ids=lambda c: c.name)
def test_hip_compiles(case: Case, arch: str) -> None:
    text = assembly(lowered(case, f"hip:{arch}").source, Target("hip", arch))
    assert "s_endpgm" in text


@cases("metal")
def test_metal_is_printed(case: Case) -> None:
    assert "kernel void" in lowered(case, "metal").source.text


@pytest.mark.parametrize(
    ("name", "target"), [("matches", "hip"), ("votes", "metal"), ("named_barriers", "metal")]
)
def test_what_a_target_lacks_is_said(name: str, target: str) -> None:
    case = next(c for c in CASES if c.name == name)
    with pytest.raises(KernelError, match="is not there on"):
        lowered(case, target)


@pytest.mark.parametrize("device", DEVICES)
def test_pointers_as_arguments(device: str) -> None:
    kernel = compiled_for(kernels.by_pointer, device)()
    a = random(20, 37).to(device)
    b = torch.full((20 * 37,), 7.0, device=device)
    kernel(a, b, 20, 37, 0.5)
    wanted = (a.T * 0.5).reshape(-1).cpu()
    wanted[0] = -1
    torch.testing.assert_close(b.cpu(), wanted)
    b.fill_(7)
    kernel(a.data_ptr(), b, 20, 37, 0.5)
    torch.testing.assert_close(b.cpu(), wanted)
    with pytest.raises(ValueError, match="b must be a tensor or an address, got str"):
        kernel(a, "b", 20, 37, 0.5)


@pytest.mark.toolchain
@pytest.mark.skipif(nvrtc() is None and nvcc() is None, reason="no CUDA compiler on this machine")
def test_pointers_in_cuda() -> None:
    module = StaticModule(kernels.__file__, _TEXT)
    kernel = next(k for k in module.kernels if k.qualified_name == "by_pointer")
    target = parse_target("cuda:sm_90")
    source = lower(prim_func_of(trace_static(module, kernel), target, _TEXT), target).source
    compile_source(source, target)
    assert "float* __restrict__ b" in source.text


def test_clusters_are_declared() -> None:
    case = next(c for c in CASES if c.name == "clusters")
    text = lowered(case, "cuda:sm_90").source.text
    assert "__cluster_dims__(2, 1, 1) __launch_bounds__(32) clusters_kernel(" in text
