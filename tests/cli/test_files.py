"""Finding and reading files: folders, encodings, what is no Python text, and settings in pyproject.toml."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tilelang.arch.target import Target
from tilelang.cli.config import config_for, target_for
from tilelang.cli.sources import UnreadableError, find_python_files, read_source
from tilelang.cli.usage import UsageError, read_choice, split_kernel
from tilelang.diagnostics.problem import Problem, Severity
from tilelang.diagnostics.span import Span
from tilelang.facts.project import Project, Projects
from tilelang.frontend.environments.static_module import StaticModule
from tilelang.ir.values import Unknown


def made(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("", encoding="utf-8")
    return folder


def test_folders_are_walked_in_order_without_caches_and_environments(tmp_path: Path):
    made(tmp_path, "b.py", "a/z.py", "a/__pycache__/q.py", ".hidden/h.py", "venv/pyvenv.cfg", "venv/lib/v.py")
    made(tmp_path, "notes.txt", "node_modules/n.py", "a/y.pyi")
    assert [f.relative_to(tmp_path).as_posix() for f in find_python_files([tmp_path])] == ["b.py", "a/z.py"]


def test_a_file_is_found_once_and_a_named_file_whatever_its_name(tmp_path: Path):
    made(tmp_path, "a.py", "script")
    found = list(find_python_files([tmp_path, tmp_path / "a.py", tmp_path / "script"]))
    assert [f.name for f in found] == ["a.py", "script"]


def test_byte_order_mark_and_line_ends_are_normalised(tmp_path: Path):
    file = tmp_path / "k.py"
    file.write_bytes(b"\xef\xbb\xbfx = 1\r\ny = 2\rz = 3\n")
    assert read_source(file) == "x = 1\ny = 2\nz = 3\n"


def test_declared_encoding_is_honoured(tmp_path: Path):
    file = tmp_path / "k.py"
    file.write_bytes("# -*- coding: latin-1 -*-\nname = 'é'\n".encode("latin-1"))
    assert read_source(file).endswith("name = 'é'\n")


@pytest.mark.parametrize(
    ("data", "place", "said"),
    [
        (b"x = 1\nname = '\xe9'\n", (2, 9), "Save it as UTF-8, or declare its encoding"),
        (b"#\n" * 4000 + b"name = '\xe9'\n", (4001, 9), "byte 0xe9 in line 4001 is not utf-8 text"),
        (b"# coding: klingon\n", (1, 1), "unknown encoding: klingon"),
        (b"# coding: ascii\nname = '\xe9'\n", (2, 9), "byte 0xe9 in line 2 is not ascii text"),
        ("import tilelang\n".encode("utf-16-le"), (1, 1), "holds null bytes, as files in UTF-16 do"),
        (b"# coding: utf-16\nimport tilelang\n", (1, 1), "declares utf-16, which no Python file can be in"),
        (b"\x7fELF\0\0\xff\xfe", (1, 7), "holds null bytes"),
        (b"# coding: base64\n", (1, 1), "not a text encoding"),
        (b"# coding: rot13\n", (1, 1), "not a text encoding"),
        (b"# coding: undefined\n", (1, 1), "undefined encoding"),
        (b"\xef\xbb\xbf# coding: latin-1\n", (1, 1), "byte order mark of UTF-8 and declares another"),
    ],
)
def test_undecodable_files_say_where_and_what_to_do(
    tmp_path: Path, data: bytes, place: tuple[int, int], said: str
):
    file = tmp_path / "k.py"
    file.write_bytes(data)
    with pytest.raises(UnreadableError, match=said) as caught:
        read_source(file)
    span = caught.value.problem.span
    assert (span.path, span.line, span.column) == (str(file), *place)


def test_unreadable_file_says_why(tmp_path: Path):
    with pytest.raises(UnreadableError, match="cannot be read: Is a directory"):
        read_source(tmp_path)


def problem(rule: str) -> Problem:
    return Problem(rule, Severity.ERROR, "m", Span("k.py", 1, 1, 1, 2))


def settings(folder: Path, toml: str) -> Project:
    (folder / "pyproject.toml").write_text(toml, encoding="utf-8")
    return config_for(made(folder, "pkg/k.py") / "pkg" / "k.py")


def test_without_settings_everything_counts_for_sm_90(tmp_path: Path):
    found = settings(tmp_path, "[project]\nname = 'x'\n")
    assert found.target is None and found.rules.wants(problem("gemm-shape"))
    assert target_for(tmp_path / "pkg" / "k.py", None).name == "cuda:sm_90"


def test_settings_of_the_nearest_project_with_a_table(tmp_path: Path):
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "pyproject.toml").write_text("[tool.other]\n", encoding="utf-8")
    found = settings(tmp_path, "[tool.tilelang]\ntarget = 'hip'\n")
    assert found.target == Target("hip", "gfx942")


def test_select_and_ignore_take_rules_and_families(tmp_path: Path):
    found = settings(tmp_path, "[tool.tilelang]\nselect = ['shape', 'gemm-scope']\nignore = ['copy-shape']\n")
    rules = ("gemm-shape", "gemm-scope", "gemm-dtype", "copy-shape")
    wanted = {r: found.rules.wants(problem(r)) for r in rules}
    assert wanted == {"gemm-shape": True, "gemm-scope": True, "gemm-dtype": False, "copy-shape": False}
    assert found.rules.wants(problem("syntax-error")) and found.rules.wants(problem("unreadable-file"))


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        (
            "[tool.tilelang]\ntargte = 'cuda'\n",
            "no key 'targte'; it takes target, select, ignore and",
        ),
        ("[tool.tilelang]\ntarget = 'abacus'\n", "unknown target 'abacus'"),
        ("[tool.tilelang]\nignore = ['gemm-shap']\n", "'gemm-shap'.*did you mean gemm-shape"),
        ("[tool.tilelang]\nignore = 'gemm-shape'\n", "ignore must be a list"),
        ("[tool.tilelang]\nspecialisations = 3\n", "expected values by kernel"),
        (
            "[tool.tilelang.specialisations.f]\nx = [1]\n",
            r"expected a number, .* not \[1\]",
        ),
        ("[tool]\ntilelang = 3\n", "tool.tilelang must be a table"),
        ("[tool.tilelang\n", r"pyproject\.toml cannot be read"),
    ],
)
def test_wrong_settings_are_refused_with_the_place(tmp_path: Path, toml: str, said: str):
    with pytest.raises(UsageError, match=said):
        settings(tmp_path, toml)


def test_specialisations_are_values_by_kernel(tmp_path: Path):
    found = settings(
        tmp_path, "[tool.tilelang.specialisations.gemm]\nblock_M = 64\ndtype = 'float16'\ntransposed = true\n"
    )
    assert found.choice("Ops.gemm", "gemm") == {"block_M": "64", "dtype": "'float16'", "transposed": "True"}
    assert found.choice("other") == {}


def test_settings_are_read_again_when_the_file_changes(tmp_path: Path):
    project, projects = tmp_path / "pyproject.toml", Projects()
    assert projects.of(tmp_path / "k.py") == Project()
    project.write_text("[tool.tilelang]\ntarget = 'metal'\n", encoding="utf-8")
    assert projects.of(tmp_path / "k.py").target == Target("metal", "metal3")
    project.write_text("[tool.tilelang]\ntarget = 'cpu'\n", encoding="utf-8")
    assert projects.of(tmp_path / "k.py").target == Target("cpu", "native")


def test_split_kernel():
    assert split_kernel("a/k.py::f.main") == (Path("a/k.py"), "f.main")
    assert split_kernel("k.py") == (Path("k.py"), None)
    for text in ("::f", "k.py::"):
        with pytest.raises(UsageError, match="write FILE::KERNEL"):
            split_kernel(text)


def test_choices_are_python_source():
    given = ["block_M=64", "dtype=float16", "d2=T.float16", "name='x'", "shape=(1, 2)", "flag=True", "s=a b"]
    assert read_choice(given) == {
        "block_M": "64",
        "dtype": "'float16'",
        "d2": "T.float16",
        "name": "'x'",
        "shape": "(1, 2)",
        "flag": "True",
        "s": "'a b'",
    }
    with pytest.raises(UsageError, match="write NAME=VALUE"):
        read_choice(["block_M"])


def test_pipes_devices_and_loops_of_links_are_not_read(tmp_path: Path):
    """Reading a pipe that nobody writes to never ends, nor does reading /dev/zero."""
    made(tmp_path, "a.py", "folder.py/b.py")
    os.mkfifo(tmp_path / "pipe.py")
    for name, target in (
        ("zero.py", "/dev/zero"),
        ("self.py", "self.py"),
        ("nothing.py", "/nowhere"),
        ("up", "."),
    ):
        (tmp_path / name).symlink_to(target)
    found = [f.relative_to(tmp_path).as_posix() for f in find_python_files([tmp_path])]
    assert found == ["a.py", "folder.py/b.py"]
    for name in ("pipe.py", "zero.py"):
        with pytest.raises(UnreadableError, match="no regular file; give its text through standard input"):
            read_source(tmp_path / name)


def test_imports_that_no_file_can_have_are_unknown(tmp_path: Path):
    """The system refuses names that long, and does so with an error of its own."""
    text = f"import {'a' * 400}\nfrom {'.'.join(['b' * 200] * 30)} import X\n"
    assert isinstance(StaticModule(str(tmp_path / "k.py"), text).scope.names["X"], Unknown)


def test_a_package_that_appears_is_found(tmp_path: Path):
    """The process of an editor sees a folder become a package, and a project."""
    (tmp_path / "pkg").mkdir()
    (tmp_path / "sizes.py").write_text("BLOCK = 64\n")

    def block() -> object:
        return StaticModule(str(tmp_path / "pkg" / "k.py"), "from sizes import BLOCK\n").scope.names["BLOCK"]

    assert isinstance(block(), Unknown)
    (tmp_path / "pkg" / "__init__.py").touch()
    assert block() == 64


def test_a_file_of_a_package_that_is_a_pipe_is_not_imported(tmp_path: Path):
    os.mkfifo(tmp_path / "sizes.py")
    module = StaticModule(str(tmp_path / "k.py"), "from sizes import BLOCK\nX = BLOCK\n")
    assert isinstance(module.scope.names["X"], Unknown)


@pytest.mark.parametrize(
    "data", [b"\xef\xbb\xbfBLOCK = 64\n", b"# coding: latin-1\n# \xe9\nBLOCK = 64\n", b"BLOCK = 64\r\n"]
)
def test_imported_files_are_read_in_their_encoding(tmp_path: Path, data: bytes):
    (tmp_path / "sizes.py").write_bytes(data)
    module = StaticModule(str(tmp_path / "k.py"), "from sizes import BLOCK\n")
    assert module.scope.names["BLOCK"] == 64


def test_settings_in_a_pipe_are_none(tmp_path: Path):
    os.mkfifo(tmp_path / "pyproject.toml")
    assert config_for(made(tmp_path, "k.py") / "k.py") == Project()


def test_files_that_cannot_be_have_no_settings(tmp_path: Path):
    (tmp_path / "self.py").symlink_to("self.py")
    for path in (
        tmp_path / "self.py",
        tmp_path / "self.py" / "k.py",
        tmp_path / "a\0b.py",
        tmp_path / ("a" * 400),
    ):
        assert config_for(path) == Project()


def test_settings_nested_beyond_reason_are_refused(tmp_path: Path):
    with pytest.raises(UsageError, match="cannot be read"):
        settings(tmp_path, "[tool.tilelang]\nselect = " + "[" * 100_000)
