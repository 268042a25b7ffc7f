"""The house keeps its shape: which room may import which, and what every file, rule and protocol name must
have.

`docs/architecture.md` numbers these invariants; each test here holds one of them.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tilelang.diagnostics import rules as rule_files
from tilelang.diagnostics.registry import RULES
from tilelang.diagnostics.rule import Rule
from tilelang.language.names import LANGUAGE

ROOT = Path(__file__).resolve().parents[1]

_BASE = {"diagnostics", "facts", "arch"}
_IR = {*_BASE, "ir"}
_LAYOUT = {*_IR, "layout", "language"}
_OPS = {*_LAYOUT, "ops"}
_FRONTEND = {*_OPS, "language", "frontend"}
_ANALYSIS = {*_FRONTEND, "analysis"}
_PASSES = {*_ANALYSIS, "passes"}
_TARGETS = {*_PASSES, "runtime", "targets"}
_TOP = {*_TARGETS, "jit", "autotuner", "profiler", "utils", "reference"}

# Room of `tilelang` -> the rooms it may import. A room that is not listed here does not exist.
ALLOWED: Mapping[str, set[str]] = {
    "diagnostics": {"diagnostics"},
    "arch": {"diagnostics", "arch"},
    "facts": _BASE,
    "language": {"arch", "language"},
    "runtime": {"runtime"},
    "ir": _IR,
    "layout": _LAYOUT,
    "ops": _OPS,
    "reference": {*_OPS, "reference"},
    "frontend": _FRONTEND,
    "analysis": _ANALYSIS,
    "passes": _PASSES,
    "targets": _TARGETS,
    "jit": _TOP,
    "autotuner": _TOP,
    "profiler": _TOP,
    "utils": _TOP,
    "carver": {"arch", "carver"},
    "tools": {*_TOP, "tools", "carver"},
    "engine": {*_TOP, "engine"},
    "cache": {*_TOP, "cache"},
    "tileop": {"language", "tileop"},
    # The language by other names, and what a target of the kind has.
    **{kind: {"arch", "language"} for kind in ("cpu", "cuda", "rocm", "metal")},
    "transform": {*_TOP, "transform"},
    "contrib": {*_TOP, "contrib"},
    "backend": {*_TOP, "backend"},
    "cuda": {"arch", "language", "cuda"},
    "cli": {*_TOP, "cli"},
}

# Packages that a room must not import, not even inside a function.
_HEAVY = {"tvm", "tvm_ffi", "torch", "numpy", "libcst", "lsprotocol", "pygls"}
BANNED: Mapping[str, set[str]] = {
    "diagnostics": _HEAVY,
    "facts": _HEAVY,
    "arch": _HEAVY,
    "language": _HEAVY - {"torch"},  # `DType.as_torch` returns what only torch has
    "runtime": {"tvm"},
    **{
        room: {"torch", "pygls"}
        for room in ("ir", "layout", "ops", "frontend", "analysis", "passes", "targets")
    },
}

# Files of `tilelang_lsp` that run in another process than the server.
COMPILER_SIDE = {"engine/compiler.py", "engine/worker.py"}
RUN_SCRIPT = "runner/run_kernel.py"
SERVER_MAY = _BASE


def python_files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def imports(source: str, package: str) -> Iterator[tuple[int, str]]:
    """(line, dotted module) of every import, those inside functions included.

    package: the package the file is in, for relative imports. `from a import b` gives both a and a.b, since
    b may be a module.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, *filter(None, [base])])
            yield node.lineno, base
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)
        elif _is_import_call(node):
            yield node.lineno, node.args[0].value  # type: ignore[attr-defined]


def _is_import_call(node: ast.AST) -> bool:
    """`importlib.import_module("x")` or `__import__("x")` of a name written out."""
    return (
        isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("importlib.import_module", "import_module", "__import__")
        and bool(node.args)
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    )


def room_of(module: str) -> str | None:
    """`tilelang.ir.build` -> "ir"; None for the package itself and for what is not a room."""
    parts = module.split(".")
    return parts[1] if parts[0] == "tilelang" and len(parts) > 1 and parts[1] in ALLOWED else None


def wrong_arrows(room: str, source: str, package: str) -> list[str]:
    """What a file in `room` imports and must not."""
    found = []
    for line, module in imports(source, package):
        top, target = module.split(".")[0], room_of(module)
        wrong_room = target is not None and target not in ALLOWED[room]
        if wrong_room or top == "tilelang_lsp" or top in BANNED.get(room, ()):
            found.append(f"line {line}: {room} imports {module}")
    return found


def test_every_room_has_its_place_in_the_order():
    folders = {p.name for p in (ROOT / "tilelang").iterdir() if any(p.glob("*.py"))}
    assert folders <= set(ALLOWED), f"say in ALLOWED what {folders - set(ALLOWED)} may import"


def test_compiler_rooms_import_in_one_direction():
    found = []
    for path in python_files("tilelang"):
        parts = path.relative_to(ROOT / "tilelang").parts
        if len(parts) == 1:
            continue  # the package's own lazy door, and __main__
        package = ".".join(path.relative_to(ROOT).parent.parts)
        found += [f"{path.relative_to(ROOT)} {w}" for w in wrong_arrows(parts[0], path.read_text(), package)]
    assert not found, "\n".join(found)


# The frontend's own rooms, from the ground up: what all of them share lies in `frontend/` itself.
FRONTEND_ROOMS = ("", "operations", "python", "environments")


def test_rooms_of_the_frontend_import_in_one_direction():
    base, found = ROOT / "tilelang" / "frontend", []
    for path in python_files("tilelang/frontend"):
        place = path.relative_to(base).parts
        allowed = FRONTEND_ROOMS[: FRONTEND_ROOMS.index(place[0] if len(place) > 1 else "") + 1]
        for line, module in imports(path.read_text(), "tilelang.frontend"):
            parts = module.split(".")
            if parts[:2] == ["tilelang", "frontend"] and len(parts) > 2:
                room = parts[2] if (base / parts[2]).is_dir() else ""
                if room not in allowed:
                    found.append(f"{path.relative_to(ROOT)} line {line} imports {module}")
    assert {p.name for p in base.iterdir() if any(p.glob("*.py"))} == {*FRONTEND_ROOMS} - {""}
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("ir", "from tilelang.ops.copy import Copy"),
        ("ir", "def f():\n    import tilelang.targets.driver"),
        ("ops", "from tilelang import frontend"),
        ("ops", "from ..passes import walk"),
        ("facts", "import tvm.ir"),
        ("runtime", "from tilelang.targets.lowered import LoweredKernel"),
        ("runtime", "from tvm import tirx"),
        ("analysis", "import importlib\nimportlib.import_module('tilelang.jit.kernel')"),
        ("targets", "from tilelang_lsp.ide import hover"),
        (
            "frontend",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from tilelang.analysis import check",
        ),
    ],
)
def test_a_planted_wrong_import_is_found(room: str, source: str):
    assert len(wrong_arrows(room, source, f"tilelang.{room}")) >= 1


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("ops", "from tilelang.ir import values"),
        ("ops", "from . import copy"),
        ("cli", "import tilelang\nfrom tilelang.jit.static import generate_source"),
        ("frontend", "import tilelang.language as T"),
    ],
)
def test_right_imports_are_let_through(room: str, source: str):
    assert wrong_arrows(room, source, f"tilelang.{room}") == []


def server_side_files() -> list[Path]:
    base = ROOT / "tilelang_lsp"
    apart = {*COMPILER_SIDE, RUN_SCRIPT}
    return [p for p in python_files("tilelang_lsp") if p.relative_to(base).as_posix() not in apart]


def test_server_process_imports_nothing_of_the_compiler_but_its_plain_rooms():
    found = []
    for path in server_side_files():
        package = ".".join(path.relative_to(ROOT).parent.parts)
        for line, module in imports(path.read_text(), package):
            room = room_of(module)
            heavy = module.split(".")[0] in {"tvm", "tvm_ffi", "torch", "numpy"}
            apart = module.replace(".", "/") + ".py" in {f"tilelang_lsp/{f}" for f in COMPILER_SIDE}
            if (room is not None and room not in SERVER_MAY) or heavy or apart:
                found.append(f"{path.relative_to(ROOT)} line {line}: {module}")
    assert not found, "\n".join(found)


def test_editor_features_know_no_protocol():
    found = [
        f"{path.relative_to(ROOT)} line {line}: {module}"
        for path in python_files("tilelang_lsp/ide")
        for line, module in imports(path.read_text(), "tilelang_lsp.ide")
        if module.split(".")[0] in ("lsprotocol", "pygls") or module.startswith("tilelang_lsp.protocol")
    ]
    assert not found, "\n".join(found)


def test_run_script_is_self_contained():
    """It runs in the user's interpreter, where neither the server nor our compiler need be installed."""
    source = (ROOT / "tilelang_lsp" / RUN_SCRIPT).read_text()
    found = [
        f"line {line}: {module}"
        for line, module in imports(source, "tilelang_lsp.runner")
        if module.split(".")[0] == "tilelang_lsp" or room_of(module) is not None
    ]
    assert not found, "\n".join(found)


def test_starting_the_server_loads_neither_tvm_nor_torch():
    code = (
        "import json, sys, tilelang_lsp.server; "
        "print(json.dumps([m for m in ('tvm', 'tvm_ffi', 'torch', 'numpy', 'libcst') if m in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


_INPUTS = {"mistakes", "planted"}  # what tests read, written as kernel authors write


def all_sources() -> list[Path]:
    folders = ("tilelang", "tilelang_lsp", "tests", "benchmarks", "examples", "scripts")
    return [p for f in folders for p in python_files(f) if not _INPUTS & set(p.parts)]


def test_every_module_opens_with_a_sentence():
    found = []
    for path in all_sources():
        text = path.read_text(encoding="utf-8")
        if not text.strip():
            continue
        first = (ast.get_docstring(ast.parse(text)) or "").partition("\n\n")[0].strip()
        if not re.search(r"[.:?!)`]$", first) or len(first.split()) < 3:
            found.append(f"{path.relative_to(ROOT)}: {first!r}")
    assert not found, "\n".join(found)


def test_text_is_parsed_in_one_place():
    """Parses in threads trip over each other in CPython 3.11; `tilelang.parsing` says how."""
    apart = {"tilelang/parsing.py", f"tilelang_lsp/{RUN_SCRIPT}"}  # the latter is alone in its process
    found = [
        f"{name} line {node.lineno}"
        for path in (*python_files("tilelang"), *python_files("tilelang_lsp"))
        if (name := path.relative_to(ROOT).as_posix()) not in apart
        and "ast.parse" in (text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "ast.parse"
    ]
    assert not found, "\n".join(found)


def test_no_star_imports():
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in all_sources()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and any(a.name == "*" for a in node.names)
    ]
    assert not found, "\n".join(found)


def rule_constants() -> dict[str, list[Rule]]:
    """Constant name -> the records called so, from all files of `diagnostics/rules`."""
    found: dict[str, list[Rule]] = {}
    for path in sorted(Path(rule_files.__path__[0]).glob("*.py")):
        if path.stem == "__init__":
            continue
        module = __import__(f"tilelang.diagnostics.rules.{path.stem}", fromlist=["RULES"])
        for name, value in vars(module).items():
            if isinstance(value, Rule):
                found.setdefault(name, []).append(value)
    return found


def test_every_rule_file_is_registered_and_records_of_one_name_agree():
    by_name: dict[str, Rule] = {}
    for records in rule_constants().values():
        for record in records:
            first = by_name.setdefault(record.name, record)
            assert (record.family, record.summary) == (first.family, first.summary), record.name
    assert set(by_name) == set(RULES)


def test_rule_names_explain_themselves():
    for rule in RULES.values():
        assert re.fullmatch(r"[a-z]+(-[a-z]+)+", rule.name), rule.name
        assert rule.summary and not rule.summary.endswith(".."), rule.name


def test_messages_advise_only_what_the_language_has():
    advised = {
        name
        for records in rule_constants().values()
        for record in records
        for name in re.findall(r"\bT\.(\w+)", record.message)
    }
    assert advised and advised <= set(LANGUAGE)


def test_every_rule_is_raised_somewhere():
    code = "\n".join(
        p.read_text(encoding="utf-8")
        for p in [*python_files("tilelang"), *python_files("tilelang_lsp")]
        if p.parent.name != "rules"
    )
    raised = {
        record.name
        for constant, records in rule_constants().items()
        for record in records
        if re.search(rf"\b{constant}\b", code)
    }
    assert raised == set(RULES), f"never raised: {sorted(set(RULES) - raised)}"


def test_problems_are_made_by_registered_rules_only():
    """`Problem("name", ...)` with a name written out has no page to link to."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in [*python_files("tilelang"), *python_files("tilelang_lsp")]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Problem")
        if node.args and isinstance(node.args[0], ast.Constant) and node.args[0].value not in RULES
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("folder", ["docs/rules", "tests/diagnostics"])
def test_every_rule_has_its_page_and_its_test(folder: str):
    missing = sorted(name for name in RULES if not (ROOT / folder / f"{name}.md").is_file())
    assert not missing, f"{folder} lacks {', '.join(missing)}"


@pytest.mark.parametrize("folder", ["docs/rules", "tests/diagnostics"])
def test_pages_and_tests_are_of_rules_that_exist(folder: str):
    stray = {p.stem for p in (ROOT / folder).glob("*.md")} - set(RULES) - {"index", "README"}
    assert not stray


_METHOD = re.compile(r"""["'](tilelang/\w+)["']""")
_COMMAND = re.compile(r"""["'](tilelang\.\w+)["']""")


def test_both_sides_of_the_custom_protocol_name_the_same_requests():
    server = "\n".join(p.read_text(encoding="utf-8") for p in python_files("tilelang_lsp/protocol"))
    client = (ROOT / "vscode-extension" / "src" / "protocol.ts").read_text(encoding="utf-8")
    assert set(_METHOD.findall(client)) == set(_METHOD.findall(server)) != set()
    # A client may leave commands to the server; it must not invent any.
    assert set() != set(_COMMAND.findall(client)) <= set(_COMMAND.findall(server))


def test_custom_requests_are_documented():
    page = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
    server = "\n".join(p.read_text(encoding="utf-8") for p in python_files("tilelang_lsp/protocol"))
    missing = [n for n in {*_METHOD.findall(server), *_COMMAND.findall(server)} if n not in page]
    assert not missing
