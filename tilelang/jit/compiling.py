"""From a tile function to a kernel that can be called: the one way for the decorator, `compile` and tests."""

from __future__ import annotations

import linecache
import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tvm import tirx as X

from tilelang.analysis.check import check_program
from tilelang.analysis.fragment_runtime_extent import unplaced_shared_tiles
from tilelang.analysis.subject import Subject
from tilelang.arch.target import Target
from tilelang.diagnostics.error import KernelError
from tilelang.diagnostics.problem import Problem, Severity
from tilelang.diagnostics.render import to_text
from tilelang.diagnostics.rules.bounds import GUARDED_TAIL
from tilelang.diagnostics.rules.python import VAR_UNBOUND
from tilelang.env import is_cache_enabled
from tilelang.frontend.operations.extern_calls import COMPILE_FLAGS
from tilelang.ir.build import OUTPUTS, WORKSPACES, build_prim_func
from tilelang.ir.spans import from_tvm
from tilelang.ir.tile_program import Launch, TileProgram
from tilelang.ir.unbound import unbound_variable
from tilelang.ir.values import Unknown
from tilelang.jit import cache
from tilelang.jit.dump_ir import asks_for_dump, dump_ir
from tilelang.jit.kernel import JITKernel
from tilelang.jit.options import CompileOptions
from tilelang.jit.pass_configs import PassConfigKey, check_pass_configs
from tilelang.jit.pass_contexts import accept_language_keys
from tilelang.jit.postprocess import edited, edits_c, postprocess_stamp
from tilelang.jit.tvm_names import add_released_names
from tilelang.ops.registry import TILE_OPS
from tilelang.passes.split_vectors import split_vectors
from tilelang.passes.trim_loops import trim_loops
from tilelang.runtime.artifact import Artifact
from tilelang.targets import driver
from tilelang.targets.lowered import LoweredKernel

add_released_names()
accept_language_keys()  # a kernel has been defined, so what is written around `lower` may name them

_log = logging.getLogger(__name__)
# Pass configurations that are on where a kernel says nothing; who sets them asks for it.
_ASKED_BY_FALSE = (PassConfigKey.TL_DISABLE_WARP_SPECIALIZED.value,)
UNLAUNCHED = "tl.unlaunched"  # attribute of a tile function: the author wrote it without T.Kernel
# Targets whose source can be generated here and compiled elsewhere.
_SOURCE_ONLY = frozenset({"hip", "metal"})


def compile_program(program: TileProgram, options: CompileOptions, factory: str | None = None) -> JITKernel:
    """Check and compile a tile program. Raises KernelError once, with every problem found.

    factory: the function that made it, if another one did.
    """
    options = options.resolved()
    assert options.target is not None
    return compile_func(prim_func_of(program, options.target), options, factory)


def prim_func_of(program: TileProgram, target: Target, text: str | None = None) -> X.PrimFunc:
    """The tile function of a program without errors for `target`.

    text: the module's source where it is not the file's, as in an editor. Raises KernelError with every
    problem, or ValueError for a program that parameters without a value leave unknown.
    """
    source = "\n".join(_read_lines(program.span.path) or []) if text is None else text
    _, problems = check_program(program, target, source)
    raise_errors(problems, text)
    raise_errors(list(unplaced_shared_tiles(Subject(program, target, source))), text)
    if program.unlaunched:
        program = _on_one_thread(program)
    if not program.complete:
        raise ValueError(_incomplete(program, problems))
    # Without vectors and idle iterations from the start: the reference runs this function too.
    func = build_prim_func(program, {name: op.build for name, op in TILE_OPS.items()})
    unbound = unbound_variable(func)
    if unbound is not None:
        var, stmt = unbound
        raise_errors([VAR_UNBOUND.at(from_tvm(stmt.span) or program.span, name=str(var.name))], text)
    return split_vectors(trim_loops(func))


def _on_one_thread(program: TileProgram) -> TileProgram:
    """A function without T.Kernel, as the CPU runs it: its statements once, one after the other."""
    block, thread = X.Var("bx", "int32"), X.Var("tx", "int32")
    launch = Launch((1,), (1,), (block,), (thread,), program.body, program.span)
    return replace(program, body=[launch], attrs={**program.attrs, UNLAUNCHED: True}, complete=True)


def _incomplete(program: TileProgram, problems: Sequence[Problem]) -> str:
    """Why no function can be built although nothing is proven wrong."""
    if program.missing:
        names = ", ".join(program.missing)
        example = ", ".join(f"{name}=..." for name in program.missing)
        table = f"[tool.tilelang.specialisations.{program.name}]"
        return (
            f"{program.qualified_name} has no value for {names}: give one by a default, by -D on the command "
            f"line, in {table} of pyproject.toml, or by a comment above the kernel: "
            f"# tilelang: specialize({example})"
        )
    unknown = next((b for b in program.buffers if isinstance(b.dtype, Unknown)), None)
    if unknown is not None:
        assert isinstance(unknown.dtype, Unknown)
        return f"{program.qualified_name}: the dtype of {unknown.name} is not known: {unknown.dtype.reason}"
    hints = [p for p in problems if p.severity is Severity.HINT and p.rule != GUARDED_TAIL.name]
    reasons = "; ".join(f"{p.message} ({p.span.path}:{p.span.line})" for p in hints)
    known = f"parts of {program.qualified_name} cannot be known without running it"
    return f"{known}: {reasons}" if reasons else known


def raise_errors(problems: Sequence[Problem], text: str | None = None) -> None:
    """Raise KernelError, with the source shown, if a problem is an error; log the warnings otherwise."""
    if any(p.severity is Severity.ERROR for p in problems):
        ordered = sorted(problems, key=lambda p: (p.severity.rank, p.span))
        own = ordered[0].span.path
        lines = text.split("\n") if text is not None else None
        shown = to_text(ordered, lambda path: lines if lines and path == own else _read_lines(path))
        raise KernelError(ordered, f"\n{shown}")
    for problem in problems:
        if problem.severity is Severity.WARNING:
            _log.warning("%s: warning[%s]: %s", problem.span, problem.rule, problem.message)


def _read_lines(path: str) -> list[str] | None:
    """The lines of a source file as running Python knows it (interactive input included)."""
    return [line.rstrip("\n") for line in linecache.getlines(path)] or None


def compile_func(func: X.PrimFunc, options: CompileOptions, factory: str | None = None) -> JITKernel:
    """Compile a tile function, or take its kernel from this process or its artifact from the disk cache."""
    options = options.resolved()
    check_pass_configs(options.pass_configs)
    kernel = _kernel(func, options, factory)
    if options.asks_for_c and edits_c():
        kernel.get_kernel_source()  # raises for a registered function whose edit would have no effect
    return kernel


def lower_func(func: X.PrimFunc, options: CompileOptions) -> LoweredKernel:
    """The generated source of a tile function, for options with a target; no toolchain reads it."""
    check_pass_configs(options.pass_configs)
    return _lowered(_prepared(func, options), options)


def _prepared(func: X.PrimFunc, options: CompileOptions) -> X.PrimFunc:
    """The tile function with what the options say of it."""
    assert options.target is not None
    if UNLAUNCHED in func.attrs and options.target.kind != "cpu":
        name = func.attrs["global_symbol"]
        raise ValueError(
            f"{name} has no T.Kernel: {options.target} runs grids of blocks, only the CPU a function "
            "without one; put its body under `with T.Kernel(...)`"
        )
    func = with_outputs(func, options.out_idx)
    for name, value in options.pass_configs.items():
        func = func.with_attr(name, value)
    return func


def _kernel(func: X.PrimFunc, options: CompileOptions, factory: str | None) -> JITKernel:
    assert options.target is not None
    func = _prepared(func, options)
    line = cache.first_line(func)
    edits = postprocess_stamp(options.target)
    toolchain = cache.toolchain_name(options.target)
    key = cache.cache_key(func, options, toolchain, edits) if is_cache_enabled() else None
    place = (key, options.backend, options.asks_for_c, str(func.span)) if key else None
    dumps = asks_for_dump(options.pass_configs)  # which only lowering can answer
    known = cache.loaded(place)
    if known is not None and not options.debug_root_path and not dumps:
        return known
    artifact = cache.find(key, line) if key and not dumps else None
    if artifact is None:
        if options.verbose:
            _log.info("compiling %s for %s", func.attrs["global_symbol"], options.target)
        artifact = _build(func, options)
        if key:
            cache.keep(key, artifact, line, on_disk=edits is None)
    kernel = JITKernel.of(artifact, func, options)
    if options.debug_root_path:
        _write_debug(kernel, func, options.debug_root_path, factory or artifact.name)
    cache.keep_loaded(place, kernel)
    return kernel


def with_outputs(func: X.PrimFunc, out_idx: tuple[int, ...] | None) -> X.PrimFunc:
    """`func` with the parameters `out_idx` (negative ones count from the end) as outputs.

    Raises ValueError for an index that is out of range or that of a scalar.
    """
    if out_idx is None:
        return func
    count = len(func.params) - (int(func.attrs[WORKSPACES]) if WORKSPACES in func.attrs else 0)
    outputs = []
    for index in out_idx:
        if not -count <= index < count:
            raise ValueError(
                f"out_idx {index} is out of range: {func.attrs['global_symbol']} has {count} parameters"
            )
        if not X.is_buffer_var(func.params[index % count]):
            raise ValueError(f"out_idx {index} is the scalar {func.params[index % count].name}, not a tensor")
        outputs.append(index % count)
    return func.with_attr(OUTPUTS, outputs)


def _lowered(func: X.PrimFunc, options: CompileOptions) -> LoweredKernel:
    assert options.target is not None
    lowered = driver.lower(func, options.target)
    asked = any(options.pass_configs.get(name) is False for name in _ASKED_BY_FALSE)
    for note in lowered.notes if asked else ():
        _log.warning("%s is %s", lowered.name, note)
    lowered = replace(lowered, source=edited(lowered.source, options.target))
    dump_ir(func, lowered, options.pass_configs)
    return lowered


def _build(func: X.PrimFunc, options: CompileOptions) -> Artifact:
    assert options.target is not None
    lowered = _lowered(func, options)
    if options.target.kind in _SOURCE_ONLY:
        return lowered.artifact()
    own = str(func.attrs[COMPILE_FLAGS]).split() if COMPILE_FLAGS in func.attrs else []
    return replace(driver.build(lowered, (*_flags(options), *own)), name=lowered.name)


def _flags(options: CompileOptions) -> tuple[str, ...]:
    """Flags for the device compiler, given by name or as a pass configuration."""
    more = options.pass_configs.get(PassConfigKey.TL_DEVICE_COMPILE_FLAGS.value) or ()
    return (*options.compile_flags, *(more.split() if isinstance(more, str) else more))


def _write_debug(kernel: JITKernel, func: X.PrimFunc, root: str, name: str) -> None:
    """Leave the generated source, and the tile function that it comes from, where the author asked for it."""
    folder = Path(os.path.expanduser(root))
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / f"tilelang_jit_kernel_{name}.{kernel.source_extension}"
    source.write_text(kernel.kernel_source, encoding="utf-8")
    (folder / f"tilelang_jit_program_{name}.py").write_text(func.script(), encoding="utf-8")
