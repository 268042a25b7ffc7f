"""What is true of a mutant, found without asking any rule: does it lower for CUDA, does it compute the same?

A mutant is wrong when the compiler proper cannot make a kernel for sm_90 of it, when that kernel wants more
threads or shared memory than a block has, or when it computes something else than the original on the CPU
with every allocation poisoned by NaN. The rules of `check` are bypassed on this way: a false error of theirs
cannot make itself true.

Where a mutant changes the interface, it is called with tensors of its own shapes and dtypes: inputs agree
with the original's where both have elements, outputs must agree there too and be written everywhere. A mutant
whose tensors have another number of dimensions cannot be compared and counts as not judged.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tilelang.analysis.subject import Subject
from tilelang.arch.tables import limits
from tilelang.arch.target import Target, parse_target
from tilelang.diagnostics.error import KernelError
from tilelang.diagnostics.problem import Severity
from tilelang.frontend.environments.specialise import trace_static
from tilelang.frontend.environments.static_module import StaticModule
from tilelang.ir.build import build_prim_func
from tilelang.ir.prove import free_vars
from tilelang.ir.tile_program import Evaluate, TileProgram, walk
from tilelang.ops.registry import TILE_OPS
from tilelang.runtime.launch import LoadedKernel
from tilelang.runtime.plan import LaunchPlan, TensorParam
from tilelang.runtime.sizes import compile_size
from tilelang.targets import driver
from tilelang.targets.lowered import LoweredKernel

CUDA = parse_target("cuda:sm_90")
CPU = parse_target("cpu")
POISON = "tl.cpu_poison_allocations"
POISON_INT = {"int8": -77, "uint8": 177, "int32": -7654321}


@dataclass(frozen=True)
class Truth:
    """`verdict`: wrong, right or unjudged; `why` in words."""

    verdict: str
    why: str


class Refused(Exception):
    """The kernel cannot be made, and why."""


Tensors = dict[str, np.ndarray]


@dataclass(frozen=True)
class Reference:
    """One run of the original: what its tensors held before and after."""

    before: Tensors
    after: Tensors
    outputs: tuple[str, ...]  # that it never reads


def program_of(text: str, kernel: str, sizes: Mapping[str, str]) -> TileProgram:
    """The tile program under given sizes. Raises Refused where none can be built."""
    module = StaticModule("kernel.py", text)
    try:
        source = module.kernel(kernel)
    except KeyError:
        raise Refused("the kernel is not found") from None
    program = trace_static(module, source, sizes)
    if not program.complete:
        errors = [p.message for p in program.problems if p.severity is Severity.ERROR]
        raise Refused(f"frontend: {errors[0] if errors else 'incomplete'}")
    return program


def lowered_for(program: TileProgram, target: Target, poison: bool = False) -> LoweredKernel:
    """The kernel without any check before. Raises Refused for whatever lowering answers."""
    try:
        func = build_prim_func(program, {name: op.build for name, op in TILE_OPS.items()})
        if poison:
            func = func.with_attr(POISON, True)
        return driver.lower(func, target)
    except KernelError as error:
        raise Refused(f"lowering: {error.problems[0].message}") from None
    except Exception as error:  # noqa: BLE001 - a kernel that the compiler cannot make, for whatever reason
        raise Refused(
            f"lowering: {type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        ) from None


def cuda_kernel(program: TileProgram) -> LoweredKernel:
    """The kernel for sm_90. Raises Refused where it cannot be made or launched."""
    lowered = lowered_for(program, CUDA)
    plan = lowered.plan
    room = limits(CUDA).shared_bytes
    if room is not None and plan.shared_bytes > room:
        raise Refused(f"launch: {plan.shared_bytes} bytes of shared memory")
    threads = int(np.prod(plan.threads))
    if not 1 <= threads <= 1024:
        raise Refused(f"launch: {threads} threads")
    if any(isinstance(n, int) and n < 1 for n in plan.grid):
        raise Refused(f"launch: a grid of {plan.grid}")
    return lowered


def reference(text: str, kernel: str, sizes: Mapping[str, str]) -> Reference:
    """The original's run. Raises Refused if the original itself does not run."""
    program = program_of(text, kernel, sizes)
    cuda_kernel(program)
    lowered = lowered_for(program, CPU, poison=True)
    outputs = never_read(program)
    before = {
        p.name: poisoned(shape_of(p, sizes), p.dtype)
        if p.name in outputs
        else values(p.name, shape_of(p, sizes), p.dtype)
        for p in tensors(lowered.plan)
    }
    return Reference(before, run(lowered, before, sizes), outputs)


def judge(
    text: str,
    kernel: str,
    runs: Sequence[Mapping[str, str]],
    references: Sequence[Reference],
    original: str = "",
) -> Truth:
    """What is true of a mutant, by every run of its original.

    original: the text of the original, for a mutant whose tensors have other dtypes: it is then run on the
    same numbers.
    """
    answer = Truth("right", "computes the same")
    for sizes, known in zip(runs, references, strict=True):
        try:
            program = program_of(text, kernel, sizes)
            cuda_kernel(program)
        except Refused as refused:
            return Truth("wrong", str(refused))
        try:
            lowered = lowered_for(program, CPU, poison=True)
        except Refused as refused:
            answer = Truth("unjudged", f"not on the CPU: {refused}")
            continue
        start = adapted(lowered.plan, known, sizes)
        if start is None:
            return Truth("unjudged", "the interface has another number of dimensions")
        if original and _other_dtypes(start, known):
            known = _on_the_same(start, known, original, kernel, sizes)
        difference = compare(known, run(lowered, start, sizes))
        if difference:
            return Truth("wrong", difference)
    return answer


def _other_dtypes(start: Tensors, known: Reference) -> bool:
    """Whether nothing but dtypes distinguishes a mutant's tensors from the original's, and they do."""
    same = all(a.shape == known.before[n].shape for n, a in start.items())
    return same and any(a.dtype != known.before[n].dtype for n, a in start.items())


def _on_the_same(
    start: Tensors, known: Reference, original: str, kernel: str, sizes: Mapping[str, str]
) -> Reference:
    """The original run on the numbers that the mutant gets, its results in the mutant's dtypes.

    A kernel that declares integers computes with integers: only what it makes of them can be wrong.
    """
    lowered = lowered_for(program_of(original, kernel, sizes), CPU, poison=True)
    with np.errstate(all="ignore"):
        before = {
            n: known.before[n] if n in known.outputs else a.astype(known.before[n].dtype)
            for n, a in start.items()
        }
        after = {n: a.astype(start[n].dtype) for n, a in run(lowered, before, sizes).items()}
    return Reference(start, after, known.outputs)


def never_read(program: TileProgram) -> tuple[str, ...]:
    """Tensors that the program only writes: they start poisoned."""
    subject = Subject(program, CUDA)
    read = {a.buffer.storage for a in program.accesses if a.mode == "read"}
    for record in subject.records:
        read |= {a.region.buffer.storage for a in subject.accesses(record) if a.mode != "write"}
    by_var = {b.var: b for b in program.buffers if b.known}
    for node in walk(program.body):
        if isinstance(node, Evaluate):
            read |= {by_var[v] for v in free_vars(node.value) if v in by_var}
    return tuple(p.name for p in program.params if p.buffer is not None and p.buffer not in read)


def tensors(plan: LaunchPlan) -> list[TensorParam]:
    return [p for p in plan.params if isinstance(p, TensorParam)]


def shape_of(param: TensorParam, sizes: Mapping[str, str]) -> tuple[int, ...]:
    numbers = {name: int(value) for name, value in sizes.items() if value.isdigit()}
    return tuple(compile_size(n).evaluate(numbers) for n in param.shape)


def kind(dtype: str) -> Any:
    if dtype == "bfloat16" or dtype.startswith("float8"):
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, dtype))
    return np.dtype(dtype)


def values(name: str, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Reproducible contents of a tensor: normal numbers, or small integers."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    if dtype == "bool":
        return rng.random(shape) > 0.5
    if np.issubdtype(kind(dtype), np.integer):
        low, high = {"int8": (-8, 8), "uint8": (0, 256)}.get(dtype, (0, 8))
        return rng.integers(low, high, shape).astype(dtype)
    return rng.normal(size=shape).astype(kind(dtype))


def poisoned(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype == "bool" or np.issubdtype(kind(dtype), np.integer):
        return np.full(shape, POISON_INT.get(dtype, 99), dtype)
    return np.full(shape, np.nan).astype(kind(dtype))


def adapted(plan: LaunchPlan, known: Reference, sizes: Mapping[str, str]) -> Tensors | None:
    """The original's tensors in the shapes and dtypes of a mutant; None if the ranks differ."""
    made: Tensors = {}
    for param in tensors(plan):
        shape = shape_of(param, sizes)
        old = known.before.get(param.name)
        if old is None or len(old.shape) != len(shape):
            return None
        if param.name in known.outputs:
            made[param.name] = poisoned(shape, param.dtype)
            continue
        new = values(param.name + "'", shape, param.dtype)
        common = tuple(slice(0, min(a, b)) for a, b in zip(shape, old.shape, strict=True))
        with np.errstate(all="ignore"):
            new[common] = old[common].astype(new.dtype)
        made[param.name] = new
    return made


def run(lowered: LoweredKernel, start: Tensors, sizes: Mapping[str, str]) -> Tensors:
    """The tensors after the kernel ran on copies of `start`."""
    os.environ["TILELANG_CPU_THREADS"] = "1"
    artifact = driver.build(lowered, ["-O0"])  # LLVM's optimiser takes longer than these small runs
    # Outputs are given, so that what no block writes stays poisoned.
    artifact = replace(artifact, plan=replace(artifact.plan, outputs=()))
    numbers = {name: int(value) for name, value in sizes.items() if value.isdigit()}
    held: Tensors = {}
    for param in tensors(artifact.plan):
        held[param.name] = _with_strides(param, start[param.name], numbers)
    LoadedKernel(artifact)(*(held[p.name] for p in artifact.plan.params))
    return held


def _with_strides(param: TensorParam, array: np.ndarray, numbers: Mapping[str, int]) -> np.ndarray:
    if param.strides is None:
        return array.copy()
    strides = [compile_size(s).evaluate(numbers) for s in param.strides]
    length = 1 + sum((n - 1) * s for n, s in zip(array.shape, strides, strict=True))
    base = np.zeros(length, array.dtype)
    view = np.lib.stride_tricks.as_strided(base, array.shape, [s * array.itemsize for s in strides])
    view[...] = array
    return view


def compare(known: Reference, found: Tensors) -> str:
    """What differs, in words; "" if nothing does but precision."""
    for name, after in known.after.items():
        new = found.get(name)
        if new is None:
            return f"{name} is gone"
        same_kind = new.shape == after.shape and new.dtype == after.dtype
        if not same_kind and name not in known.outputs and _equal(after, known.before[name]):
            continue  # an input that the original leaves alone; its shape is the mutant's own affair
        common = tuple(slice(0, min(a, b)) for a, b in zip(new.shape, after.shape, strict=True))
        words = _difference(name, after[common], new[common])
        if words:
            return words
        if new.shape != after.shape and name in known.outputs and _unwritten(new):
            return f"{name} is not written everywhere"
    return ""


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.array_equal(_wide(a), _wide(b), equal_nan=True))


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64)


def _unwritten(array: np.ndarray) -> bool:
    fresh = poisoned(array.shape, str(array.dtype))
    return bool((_wide(fresh) == _wide(array)).any() or np.isnan(_wide(array)).any())


def _difference(name: str, expected: np.ndarray, found: np.ndarray) -> str:
    """Beyond what another precision explains: 3 % of an element and of the size of all."""
    a, b = _wide(expected), _wide(found)
    with np.errstate(all="ignore"):
        finite = a[np.isfinite(a)]
        size = float(np.sqrt(np.mean(finite**2))) if finite.size else 0.0
        exact = np.issubdtype(expected.dtype, np.integer) and np.issubdtype(found.dtype, np.integer)
        allowed = np.zeros_like(a) if exact else 0.03 * (np.abs(a) + size)
        same = (np.abs(a - b) <= allowed) | (np.isnan(a) & np.isnan(b)) | (a == b)
    if same.all():
        return ""
    where = tuple(int(i) for i in np.argwhere(~same)[0])
    count = int((~same).sum())
    return f"{name}{list(where)} is {b[where]:.4g}, not {a[where]:.4g} ({count} of {a.size} differ)"
