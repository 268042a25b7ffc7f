"""Names and arguments that upstream's releases deprecate or have removed, and what to write instead.

Observed with the 0.1.15 release: which names announce themselves, which are gone, which arguments it refuses.
"""

from __future__ import annotations

import ast
import difflib
import re
from dataclasses import dataclass, replace
from typing import Any

from tilelang.arch.pass_config_keys import PassConfigKey
from tilelang.diagnostics.problem import Edit, Fix, Problem
from tilelang.diagnostics.rules.compat import DEPRECATED_NAME, REMOVED_ARGUMENT, REMOVED_NAME
from tilelang.diagnostics.rules.python import UNKNOWN_ATTRIBUTE
from tilelang.diagnostics.span import Span
from tilelang.frontend.arguments import Argument
from tilelang.frontend.run import Run
from tilelang.frontend.source import Source
from tilelang.frontend.suggest import hint, replacement
from tilelang.ops.source_edits import end_of, span_text


@dataclass(frozen=True)
class Renamed:
    """What a name is called now. `gone`: the release that has it no more; None if it only warns."""

    name: str
    gone: str | None = None

    def says(self) -> str:
        return "is deprecated" if self.gone is None else f"is no longer there in TileLang {self.gone}"


RENAMED: dict[str, Renamed] = {
    "symbolic": Renamed("dynamic"),
    "Buffer": Renamed("Tensor"),
    "c2d_im2col": Renamed("im2col"),
    "sync_global": Renamed("sync_grid", "0.1.15"),
    "gemm_v1": Renamed("gemm", "0.1.15"),
    "gemm_v2": Renamed("gemm", "0.1.15"),
    "gemm_sp_v2": Renamed("gemm_sp", "0.1.15"),
}

_NO_MORE = "is no longer there in TileLang 0.1.15"
_BARRIERS = "`bars = T.alloc_barrier([128, 128])` makes them, one arrival count each, and `bars[0]` names one"

# Names with no single name in their place: why they are not there, and what is written instead.
GONE: dict[str, tuple[str, str]] = {
    "create_list_of_mbarrier": (_NO_MORE, _BARRIERS),
    "get_mbarrier": (_NO_MORE, _BARRIERS),
    "dyn": ("is in no release, although it was documented", 'write `T.dynamic("n")` for `T.dyn["n"]`'),
}

# What moved to another module: (module, name) -> module.
MOVED: dict[tuple[str, str], str] = {("tilelang.autotuner", "jit"): "tilelang"}

# Spellings of dtypes that the first releases took and 0.1.15 refuses.
_OLD_DTYPES = ("e4m3_float8", "e5m2_float8")

# Parameters of the language that a release took away: function -> parameter -> why.
_REMOVED_PARAMETERS: dict[str, dict[str, str]] = {
    "gemm": {
        "k_pack": "since TileLang 0.1.15 only the AMD dialect has it",
        "wg_wait": "TileLang 0.1.15 refuses it; T.wgmma_gemm with T.wait_wgmma waits by hand",
    },
    "Kernel": {"is_cpu": 'TileLang 0.1.15 refuses it; a kernel runs on the CPU when its target is "c"'},
    "Pipelined": {
        "sync": "TileLang 0.1.15 refuses it; synchronisation is placed by the compiler",
        "group": "TileLang 0.1.15 refuses it; use order and stage",
    },
}
_DEPRECATED_PARAMETERS: dict[str, dict[str, str]] = {
    "alloc_reducer": {"replication": "the layout of a reducer is inferred"},
}

# Pass configurations, by the name in PassConfigKey and by the string it stands for.
_DEPRECATED_CONFIGS = {
    "TL_DISABLE_TMA_LOWER": "write `disable_tma=True` at the T.copy that must not use TMA",
    "tl.disable_tma_lower": "write `disable_tma=True` at the T.copy that must not use TMA",
}
_REMOVED_CONFIGS = {
    "TL_DISABLE_FAST_MATH": "fast math is off unless TL_ENABLE_FAST_MATH is set",
    "tl.disable_fast_math": "fast math is off unless tl.enable_fast_math is set",
    "TL_ENABLE_PTXAS_VERBOSE_OUTPUT": "give `-v` to ptxas with compile_flags",
    "tl.enable_ptxas_verbose_output": "give `-v` to ptxas with compile_flags",
}


def note_renamed(run: Run, name: str, at: Span, prefix: str) -> None:
    """A problem if `name` of the language, written at `at` behind `prefix.`, has another name now."""
    if name in RENAMED:
        run.note(renamed_problem(name, at, prefix))


def renamed_problem(name: str, at: Span, prefix: str, fixes: tuple[Fix, ...] = ()) -> Problem:
    """What to say about a name of RENAMED. Alone (no `prefix`) it was imported, and only there it can be
    renamed.
    """
    renamed = RENAMED[name]
    dotted = f"{prefix}." if prefix else ""
    if prefix:
        fixes = (Fix(f"Rename to `{dotted}{renamed.name}`", (Edit(at, renamed.name),)),)
    return DEPRECATED_NAME.at(
        at,
        fixes=fixes,
        tags=("deprecated",),
        what=f"`{dotted}{name}` {renamed.says()}",
        instead=f"use `{dotted}{renamed.name}`",
    )


def gone_problem(name: str, at: Span, prefix: str) -> Problem:
    """What to say about a name of GONE, written at `at` behind `prefix.`."""
    why, instead = GONE[name]
    return REMOVED_NAME.at(at, tags=("deprecated",), name=f"{prefix}.{name}", why=why, instead=instead)


def note_old_dtype(run: Run, value: Any, name: str, at: Span) -> None:
    """A problem if the dtype `name` is spelt as old releases did; the edit where it is written out."""
    if not isinstance(value, str) or value not in _OLD_DTYPES:
        return
    written = run.text_of(at)
    edits = (Edit(at, written.replace(value, name)),)
    literal = written[:1] in ("'", '"') and written[1:-1] == value
    run.report(
        DEPRECATED_NAME,
        at,
        fixes=(Fix(f'Write "{name}"', edits),) if literal else (),
        tags=("deprecated",),
        what=f'the dtype "{value}" {_NO_MORE}',
        instead=f'write "{name}"',
    )


def moved_import(source: Source, node: ast.ImportFrom) -> list[Problem]:
    """Problems for what `from ... import ...` takes from a module that has it no more; the edit imports it
    from where it is.
    """
    found = []
    for alias in node.names:
        home = MOVED.get((node.module or "", alias.name)) if not node.level else None
        if home is None:
            continue
        rest = [ast.unparse(a) for a in node.names if a is not alias]
        lines = [f"from {node.module} import {', '.join(rest)}"] if rest else []
        lines.append(f"from {home} import {ast.unparse(alias)}")
        joined = ("\n" + " " * node.col_offset).join(lines)
        whole = source.span(alias)
        found.append(
            DEPRECATED_NAME.at(
                Span(whole.path, whole.line, whole.column, whole.line, whole.column + len(alias.name)),
                fixes=(Fix(f"Import `{alias.name}` from {home}", (Edit(source.span(node), joined),)),),
                tags=("deprecated",),
                what=f"`{node.module}.{alias.name}` {_NO_MORE}",
                instead=f"import `{alias.name}` from {home}",
            )
        )
    return found


def without_removed(run: Run, node: ast.Call, name: str, kwargs: dict[str, Argument]) -> dict[str, Argument]:
    """The keyword arguments that the language still has; problems for the others."""
    removed = _REMOVED_PARAMETERS.get(name, {})
    for parameter, why in {**removed, **_DEPRECATED_PARAMETERS.get(name, {})}.items():
        argument = kwargs.get(parameter)
        if argument is None or argument.name_span is None or argument.name_span == argument.span:
            continue
        rule, word = (REMOVED_ARGUMENT, "") if parameter in removed else (DEPRECATED_NAME, "is deprecated")
        fixes = without_keyword(run.source, node, parameter)
        if word:
            what = f"the argument `{parameter}` of T.{name} {word}"
            run.report(rule, argument.name_span, fixes=fixes, tags=("deprecated",), what=what, instead=why)
        else:
            run.report(
                rule,
                argument.name_span,
                fixes=fixes,
                tags=("deprecated",),
                callee=name,
                name=parameter,
                why=why,
            )
    return {k: v for k, v in kwargs.items() if k not in removed}


def without_keyword(source: Source, node: ast.Call, name: str) -> tuple[Fix, ...]:
    """The edit that takes `name=value` out of a call, with the comma before or after it."""
    items: list[Any] = sorted([*node.args, *node.keywords], key=lambda n: (n.lineno, n.col_offset))
    index = next((k for k, n in enumerate(items) if isinstance(n, ast.keyword) and n.arg == name), None)
    if index is None:
        return ()
    before = source.span(items[index - 1]) if index else None
    return (Fix(f"Remove `{name}`", (_without_item(source, source.span(items[index]), before),)),)


def _without_item(source: Source, own: Span, before: Span | None) -> Edit:
    """Take an item of a list of arguments or entries out with its comma: with its lines and what is noted
    there, where nothing else stands on them.
    """
    lines = source.lines
    behind = lines[own.end_line - 1][own.end_column - 1 :].rstrip("\r\n")
    comma = re.match(r"[ \t]*,[ \t]*", behind)
    rest = behind[comma.end() :] if comma else behind.lstrip()
    first_on_line = not lines[own.line - 1][: own.column - 1].strip()
    if first_on_line and (not rest or rest.startswith("#")):
        return Edit(Span(own.path, own.line, 1, own.end_line + 1, 1), "")
    if comma is not None:
        return Edit(replace(own, end_column=own.end_column + comma.end()), "")
    if before is None:
        return Edit(own, "")
    gap = replace(end_of(before), end_line=own.line, end_column=own.column)
    noted = "#" in span_text(gap, source.text)
    return Edit(own if noted else replace(own, line=gap.line, column=gap.column), "")


def note_pass_configs(run: Run, node: ast.expr) -> None:
    """Problems for the keys of a `pass_configs={...}` that is written out."""
    if not isinstance(node, ast.Dict):
        return
    for index, key in enumerate(node.keys):
        if isinstance(key, ast.Attribute):
            name = key.attr
        elif isinstance(key, ast.Constant) and isinstance(key.value, str):
            name = key.value
        else:
            continue
        deprecated, removed = _DEPRECATED_CONFIGS.get(name), _REMOVED_CONFIGS.get(name)
        if deprecated is None and removed is None:
            if isinstance(key, ast.Attribute):
                _note_misspelt_config(run, key)
            continue
        word = "is deprecated" if removed is None else "is no longer there in TileLang 0.1.15"
        run.report(
            DEPRECATED_NAME,
            run.span(key),
            fixes=_without_entry(run.source, node, index, name),
            tags=("deprecated",),
            what=f"the pass configuration `{name}` {word}",
            instead=deprecated or removed or "",
        )


def _note_misspelt_config(run: Run, key: ast.Attribute) -> None:
    """A problem for `PassConfigKey.X` without such an X, where a similar one is meant."""
    owner = ast.unparse(key.value)
    if owner.rpartition(".")[2] != "PassConfigKey" or key.attr in PassConfigKey.__members__:
        return
    near = next(iter(difflib.get_close_matches(key.attr, PassConfigKey.__members__, 1, 0.85)), None)
    if near is None:  # a newer release may have it
        return
    whole = run.span(key)
    at = replace(whole, line=whole.end_line, column=whole.end_column - len(key.attr))
    run.report(
        UNKNOWN_ATTRIBUTE,
        at,
        fixes=replacement(near, at),
        owner=f"`{owner}`",
        name=key.attr,
        hint=hint(near),
    )


def _without_entry(source: Source, node: ast.Dict, index: int, name: str) -> tuple[Fix, ...]:
    key, value = node.keys[index], source.span(node.values[index])
    assert key is not None
    own = source.span(key)
    if "(" in span_text(replace(end_of(own), end_line=value.line, end_column=value.column), source.text):
        return ()
    before = source.span(node.values[index - 1]) if index else None
    whole = replace(own, end_line=value.end_line, end_column=value.end_column)
    return (Fix(f"Remove `{name}`", (_without_item(source, whole, before),)),)
