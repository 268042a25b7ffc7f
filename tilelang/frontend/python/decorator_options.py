"""Options written in `@tilelang.jit(...)` and `@tilelang.autotune(...)`: misspelt ones, outdated ones."""

from __future__ import annotations

import ast

from tilelang.arch.backends import KNOWN_BACKENDS
from tilelang.arch.cuda import DISABLE_WGMMA
from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.diagnostics.span import Span
from tilelang.frontend.deprecated import note_pass_configs
from tilelang.frontend.python.decorators import Decorator
from tilelang.frontend.python.discovery import resolve
from tilelang.frontend.run import Run
from tilelang.frontend.suggest import nearest, replacement
from tilelang.ir.tile_program import UNGUARDED

OPTIONS: dict[str, tuple[str, ...]] = {
    "jit": (
        "func",
        "out_idx",
        "target",
        "target_host",
        "execution_backend",
        "verbose",
        "pass_configs",
        "debug_root_path",
        "compile_flags",
    ),
    "autotune": (
        "func",
        "configs",
        "warmup",
        "rep",
        "timeout",
        "supply_type",
        "ref_prog",
        "supply_prog",
        "rtol",
        "atol",
        "max_mismatched_ratio",
        "skip_check",
        "manual_check_prog",
        "cache_input_tensors",
        "do_not_specialize",
        "early_stop",
        "early_stop_factor",
    ),
}


def check_decorators(run: Run, node: ast.FunctionDef) -> None:
    """Problems with the options in a kernel's decorators; of values only those that are written out are
    judged.
    """
    for item in node.decorator_list:
        if not isinstance(item, ast.Call):
            continue
        decorator = resolve(item.func, run.scope)
        if not isinstance(decorator, Decorator) or decorator.name not in OPTIONS:
            continue
        for keyword in item.keywords:
            if keyword.arg is not None and keyword.arg not in OPTIONS[decorator.name]:
                _unknown_option(run, decorator.name, keyword, keyword.arg)
            elif keyword.arg == "pass_configs":
                note_pass_configs(run, keyword.value)
                _note_for_rules(run, keyword.value)
            elif keyword.arg == "execution_backend":
                _check_backend(run, keyword.value)


def _check_backend(run: Run, node: ast.expr) -> None:
    """A backend that no target has, where it is written out: compiling the kernel refuses it."""
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return
    if node.value in KNOWN_BACKENDS:
        return
    near = nearest(node.value, KNOWN_BACKENDS)
    at = run.span(node)
    run.report(
        BAD_ARGUMENTS,
        at,
        fixes=replacement(None if near is None else f'"{near}"', at),
        callee="tilelang.jit",
        what=f'no execution_backend "{node.value}"; write one of {", ".join(KNOWN_BACKENDS)}',
    )


_OF_RULES = {"TL_DISABLE_WGMMA": DISABLE_WGMMA, "TL_DISABLE_SAFE_MEMORY_ACCESS": UNGUARDED}


def _note_for_rules(run: Run, node: ast.expr) -> None:
    """Let the rules know whether the kernel refuses wgmma or guards, where that is written out."""
    for key, value in zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ():
        name = key.value if isinstance(key, ast.Constant) else None
        if isinstance(key, ast.Attribute):
            name = _OF_RULES.get(key.attr)
        if name in _OF_RULES.values() and isinstance(value, ast.Constant) and isinstance(value.value, bool):
            run.attrs[str(name)] = value.value


def _unknown_option(run: Run, decorator: str, keyword: ast.keyword, name: str) -> None:
    at = run.span(keyword)
    name_span = Span(at.path, at.line, at.column, at.line, at.column + len(name))
    near = nearest(name, OPTIONS[decorator])
    known = f"did you mean `{near}`?" if near else f"it has {', '.join(OPTIONS[decorator][1:])}"
    run.report(
        BAD_ARGUMENTS,
        name_span,
        fixes=replacement(near, name_span),
        callee=f"tilelang.{decorator}",
        what=f"no option `{name}`; {known}",
    )
