"""`tilelang check`: many files and dying processes, selections, fixes, annotated sources, SARIF, hooks."""

from __future__ import annotations

import ast
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.kernels import GEMM, GEMM_LINE, WRONG_GEMM, problems
from tilelang.cli.main import main
from tilelang.cli.workers import Lost, Workers
from tilelang.diagnostics.registry import RULES

ROOT = Path(__file__).resolve().parents[2]
CALL = "T.gemm(A_shared, B_shared, C_local)"


@pytest.fixture(autouse=True)
def _plain_terminal(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """(exit status, standard output, standard error) of `tilelang check`."""
    status = main(["check", *(str(a) for a in arguments)])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def codes(out: str) -> list[str]:
    return [p["code"] for p in problems(out)]


# --- several processes


def test_files_are_shared_between_processes_and_reported_in_order(capsys, tmp_path: Path):
    for number in range(12):
        text = WRONG_GEMM if number % 3 == 0 else GEMM
        (tmp_path / f"k{number:02}.py").write_text(text, encoding="utf-8")
    alone = run(capsys, tmp_path, "--format", "json", "--jobs", 1)
    shared = run(capsys, tmp_path, "--format", "json", "--jobs", 3)
    assert shared == alone and alone[0] == 1
    assert [Path(p["path"]).name for p in problems(shared[1])] == [f"k{n:02}.py" for n in (0, 3, 6, 9)]


def work(task: Any) -> Any:
    """What the processes of the next test do."""
    if task == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if task == "hang":
        time.sleep(60)
    if task == "pid":
        time.sleep(0.05)
        return os.getpid()
    return task * 2


def test_a_process_that_dies_or_hangs_costs_its_own_task_only():
    results = Workers(work, 2, limit_s=8.0).map([1, "die", 2, "hang", 3, 4])
    assert results == [2, Lost("ended by signal 9"), 4, Lost("gave no answer in 8 s"), 6, 8]


def test_a_process_does_many_tasks():
    pids = Workers(work, 2, limit_s=30.0).map(["pid"] * 10)
    assert 1 <= len(set(pids)) <= 2 and os.getpid() not in pids


def test_a_file_that_trips_the_analysis_is_said_and_the_others_are_checked(capsys, tmp_path, monkeypatch):
    from tilelang.frontend.environments import static_module

    class Trips(static_module.StaticModule):
        def __init__(self, path: str, text: str) -> None:
            if path.endswith("a_trips.py"):
                raise RuntimeError("no such luck\nwith details")
            super().__init__(path, text)

    monkeypatch.setattr("tilelang.analysis.check.StaticModule", Trips)
    (tmp_path / "a_trips.py").write_text(GEMM, encoding="utf-8")
    (tmp_path / "b.py").write_text(WRONG_GEMM, encoding="utf-8")
    status, out, _ = run(capsys, tmp_path, "--format", "json", "--jobs", 1)
    assert status == 1 and codes(out) == ["analysis-failed", "gemm-shape"]
    message = json.loads(out)[0]["message"]
    assert "RuntimeError: no such luck." in message and "not in your kernels" in message


@pytest.mark.parametrize("encoding", ["ascii", "utf-8:strict"])
@pytest.mark.parametrize("form", ["text", "json", "sarif"])
def test_what_standard_output_cannot_hold_is_escaped(tmp_path: Path, monkeypatch, encoding: str, form: str):
    """Names of files need not be text, and a terminal need not know `×`."""
    kind, _, errors = encoding.partition(":")
    out = io.TextIOWrapper(io.BytesIO(), encoding=kind, errors=errors or None)
    monkeypatch.setattr("sys.stdout", out)
    file = os.fsencode(tmp_path / "größe ") + b"\xff.py"
    Path(os.fsdecode(file)).write_text(WRONG_GEMM, encoding="utf-8")
    assert main(["check", str(tmp_path), "--jobs", "1", "--format", form]) == 1
    out.flush()
    printed = out.buffer.getvalue().decode(kind)
    assert "gemm-shape" in printed
    if form != "text":
        json.loads(printed)


def test_a_path_that_no_file_can_have_is_said(capsys):
    status, _, err = run(capsys, "a" * 400)
    assert status == 2 and "no such file or folder" in err


# --- what counts


def test_select_and_ignore_on_the_command_line_go_over_the_project(capsys, tmp_path: Path):
    (tmp_path / "k.py").write_text(WRONG_GEMM, encoding="utf-8")
    assert run(capsys, tmp_path, "--ignore", "gemm-shape")[0] == 0
    assert run(capsys, tmp_path, "--select", "dtype,gemm-scope")[0] == 0
    assert run(capsys, tmp_path, "--select", "shape")[0] == 1
    (tmp_path / "pyproject.toml").write_text("[tool.tilelang]\nignore = ['shape']\n", encoding="utf-8")
    assert run(capsys, tmp_path)[0] == 0
    assert run(capsys, tmp_path, "--ignore", "resource")[0] == 1


def test_an_unknown_rule_on_the_command_line_is_wrong_usage(capsys, tmp_path: Path):
    with pytest.raises(SystemExit):
        main(["check", str(tmp_path), "--ignore", "gemm-shap"])
    assert (
        "'gemm-shap' is no rule and no family of rules; did you mean gemm-shape?" in capsys.readouterr().err
    )


def test_each_file_has_the_settings_of_its_own_project(capsys, tmp_path: Path):
    for name, ignored in (("one", "gemm-shape"), ("two", "gemm-dtype")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "k.py").write_text(WRONG_GEMM, encoding="utf-8")
        (folder / "pyproject.toml").write_text(f"[tool.tilelang]\nignore = ['{ignored}']\n", encoding="utf-8")
    status, out, _ = run(capsys, tmp_path, "--format", "json")
    assert status == 1 and [Path(p["path"]).parent.name for p in problems(out)] == ["two"]


def test_specialisations_of_the_project_are_checked(capsys, tmp_path: Path):
    (tmp_path / "k.py").write_text(GEMM, encoding="utf-8")
    assert run(capsys, tmp_path)[0] == 0
    (tmp_path / "pyproject.toml").write_text(
        "[tool.tilelang.specialisations.matmul]\nblock_M = 1024\nblock_N = 512\nblock_K = 128\n",
        encoding="utf-8",
    )
    _, out, _ = run(capsys, tmp_path, "--format", "json")
    (found,) = [p for p in problems(out) if p["severity"] != "hint"]  # register-pressure is one, and right
    assert (found["code"], found["severity"]) == ("shared-memory-budget", "warning")  # the defaults fit
    assert found["message"].startswith("with block_M=1024, block_N=512, block_K=128: ")


def test_misspelt_specialisations_of_the_project_are_told(capsys, tmp_path: Path):
    (tmp_path / "k.py").write_text(GEMM, encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(
        "[tool.tilelang.specialisations.matmul]\nblok_M = 64\nother = 3\n"
        "[tool.tilelang.specialisations.matmull]\nblock_M = 64\n"
        "[tool.tilelang.specialisations.norm]\nn = 1\n",
        encoding="utf-8",
    )
    _, out, err = run(capsys, tmp_path, "--format", "json")
    (found,) = [p for p in problems(out) if p["code"] == "unknown-specialisation"]
    assert "did you mean `block_M`?" in found["message"] and "`blok_M`" in found["message"]
    assert "specialisations.matmull]: no kernel is called so; did you mean matmul?" in err
    assert "norm" not in err  # a kernel of files that are not here
    assert "matmull" not in run(capsys, tmp_path / "k.py")[2]  # other files may have it


def test_standard_input_is_a_file(capsys, tmp_path: Path, monkeypatch):
    def given(text: str) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    given(WRONG_GEMM)
    status, out, _ = run(capsys, "-")
    assert status == 1 and f"--> <stdin>:{GEMM_LINE}:" in out
    (tmp_path / "pyproject.toml").write_text("[tool.tilelang]\nignore = ['shape']\n", encoding="utf-8")
    given(WRONG_GEMM)
    assert run(capsys, "-", "--stdin-filename", tmp_path / "k.py")[0] == 0
    given(GEMM.replace(CALL, f"{CALL}  # tilelang: ignore[gemm-shape]"))
    status, out, err = run(capsys, "-", "--fix")
    assert (status, out) == (0, GEMM) and "fixed: unused-ignore" in err


# --- fixes


@pytest.fixture
def fixable(tmp_path: Path) -> Path:
    """A file with two fixes that leave no choice, saved by an editor of Windows."""
    text = GEMM.replace(CALL, f"{CALL}  # tilelang: ignore[gemm-shape]").replace(
        "T.clear(C_local)", "T.clear(C_local)  # tilelang: ignore"
    )
    file = tmp_path / "k.py"
    file.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    return file


def test_fix_makes_the_edits_and_keeps_line_ends_and_byte_order_mark(capsys, fixable: Path):
    status, out, _ = run(capsys, fixable, "--fix")
    assert (status, out) == (0, "fixed: unused-ignore (2)\nno problems in 1 file\n")
    assert fixable.read_bytes() == b"\xef\xbb\xbf" + GEMM.replace("\n", "\r\n").encode()


def test_diff_shows_the_edits_and_changes_nothing(capsys, fixable: Path):
    before = fixable.read_bytes()
    status, out, err = run(capsys, fixable, "--diff")
    assert status == 1 and fixable.read_bytes() == before
    removed = [line for line in out.splitlines() if line.startswith("-") and not line.startswith("---")]
    assert len(removed) == 2 and all("tilelang: ignore" in line for line in removed)
    assert "would fix: unused-ignore (2)" in err


def test_fix_leaves_a_right_file_untouched(capsys, tmp_path: Path):
    file = tmp_path / "k.py"
    file.write_text(GEMM, encoding="utf-8")
    os.utime(file, (1, 1))
    assert run(capsys, file, "--fix")[0] == 0 and file.stat().st_mtime == 1


# --- annotated sources


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_an_annotated_file_is_the_same_program_line_for_line(capsys, path: Path):
    _, out, _ = run(capsys, path, "--annotate")
    text = path.read_text(encoding="utf-8")
    assert ast.dump(ast.parse(out)) == ast.dump(ast.parse(text))
    assert all(
        new.startswith(old.rstrip()) for old, new in zip(text.splitlines(), out.splitlines(), strict=True)
    )
    assert "kernel " in out


def test_annotations_say_what_hovers_say(capsys, tmp_path: Path):
    file = tmp_path / "k.py"
    file.write_text(WRONG_GEMM, encoding="utf-8")
    status, out, _ = run(capsys, file, "--annotate")
    lines = out.splitlines()
    assert status == 1 and lines[GEMM_LINE - 1].count("# ") == 1
    assert "error[gemm-shape]: K of A_shared" in lines[GEMM_LINE - 1]
    assert any("# A_shared: float16[64, 32] shared; 4 KiB × 2 stages = 8 KiB" in line for line in lines)
    assert any(
        "# grid: ceildiv(N, 64)×ceildiv(M, 64) blocks; 128 threads per block" in line for line in lines
    )


def test_annotations_wait_for_the_end_of_a_text_and_of_a_continued_line(capsys, tmp_path: Path):
    continued = GEMM.replace("T.clear(C_local)", 'T.clear(C_local); note = """\n    text"""').replace(
        CALL, "T.gemm(A_shared, \\\n                B_shared, C_local)"
    )
    file = tmp_path / "k.py"
    file.write_text(continued, encoding="utf-8")
    _, out, _ = run(capsys, file, "--annotate")
    assert ast.dump(ast.parse(out)) == ast.dump(ast.parse(continued))
    assert "B_shared, C_local)  # C_local += A_shared" in out


# --- SARIF 2.1.0


def check_sarif(log: Any) -> None:
    """The rules of the schema that our output touches (OASIS sarif-v2.1.0, sections 3.13 to 3.55)."""
    assert log["version"] == "2.1.0" and log["$schema"].endswith("sarif-2.1.0.json")
    for run_ in log["runs"]:
        driver = run_["tool"]["driver"]
        assert isinstance(driver["name"], str) and isinstance(driver["version"], str)
        assert run_["columnKind"] in ("utf16CodeUnits", "unicodeCodePoints")
        for rule in driver["rules"]:
            assert rule["id"] in RULES and rule["shortDescription"]["text"]
            assert rule["defaultConfiguration"]["level"] in ("none", "note", "warning", "error")
            assert set(rule["help"]) == {"text", "markdown"}
        for result in run_["results"]:
            assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
            assert result["level"] in ("none", "note", "warning", "error") and result["message"]["text"]
            for place in [*result["locations"], *result.get("relatedLocations", [])]:
                check_place(place["physicalLocation"])
            for fix in result.get("fixes", []):
                assert fix["description"]["text"]
                for change in fix["artifactChanges"]:
                    assert change["replacements"]
                    for replacement in change["replacements"]:
                        check_region(replacement["deletedRegion"])
                        assert isinstance(replacement["insertedContent"]["text"], str)


def check_place(place: Any) -> None:
    uri = place["artifactLocation"]["uri"]
    assert uri.isascii() and " " not in uri and "\\" not in uri
    check_region(place["region"])


def check_region(region: Any) -> None:
    assert min(region.values()) >= 1
    assert (region["startLine"], region["startColumn"]) <= (region["endLine"], region["endColumn"])


def test_sarif_has_the_structure_of_2_1_0(capsys, tmp_path: Path):
    folder = tmp_path / "with space ü"
    folder.mkdir()
    (folder / "wrong.py").write_text(WRONG_GEMM, encoding="utf-8")
    (folder / "unused.py").write_text(GEMM.replace(CALL, f"{CALL}  # tilelang: ignore"), encoding="utf-8")
    (folder / "broken.py").write_text("import tilelang\ndef f(:\n", encoding="utf-8")
    for path in sorted((ROOT / "tests" / "mistakes" / "wrong").glob("*.py"))[::6]:
        (folder / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    _, out, _ = run(capsys, folder, "--format", "sarif")
    log = json.loads(out)
    check_sarif(log)
    results = log["runs"][0]["results"]
    assert {"gemm-shape", "unused-ignore", "syntax-error"} <= {r["ruleId"] for r in results}
    assert any("fixes" in r for r in results) and any("relatedLocations" in r for r in results)


# --- pre-commit


def hooks() -> list[dict[str, Any]]:
    """`.pre-commit-hooks.yaml`: a list of flat mappings, so no YAML library is needed to read it."""
    found: list[dict[str, Any]] = []
    for line in (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8").splitlines():
        if line.startswith("#") or not line.strip():
            continue
        assert line[:2] in ("- ", "  "), line
        if line.startswith("- "):
            found.append({})
        key, _, value = line[2:].partition(": ")
        found[-1][key] = value
    return found


def test_hooks_run_the_real_command(tmp_path: Path):
    file = tmp_path / "k.py"
    file.write_text(WRONG_GEMM, encoding="utf-8")
    assert [h["id"] for h in hooks()] == ["tilelang-check", "tilelang-fix"]
    for hook in hooks():
        assert hook["language"] == "python" and hook["require_serial"] == "true"
        # Notebooks are checked too; no fix is made in one.
        assert hook["types_or"] == ("[python]" if "--fix" in hook["entry"] else "[python, jupyter]")
        command, *arguments = hook["entry"].split()
        # pre-commit installs the package of this repository, which brings the command.
        done = subprocess.run(
            [Path(sys.executable).parent / command, *arguments, file], capture_output=True, text=True
        )
        assert done.returncode == 1 and "error[gemm-shape]" in done.stdout, done.stderr


def test_the_readme_names_the_hooks_and_the_continuous_integration():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for said in ("id: tilelang-check", "--format sarif", "[tool.tilelang]"):
        assert said in readme


# --- names of files


def test_a_file_found_by_import_has_the_name_it_was_given(
    capsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "helper.py").write_text(HELPER, encoding="utf-8")
    (tmp_path / "kernel.py").write_text(IMPORTER, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for given in (["helper.py", "kernel.py"], ["kernel.py"]):
        _, out, _ = run(capsys, *given, "--format", "json")
        assert {p["path"] for p in json.loads(out) if p["code"] == "copy-shape"} == {"helper.py"}
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    _, out, _ = run(capsys, "../kernel.py", "--format", "json")
    (found,) = (p for p in json.loads(out) if p["code"] == "copy-shape")
    assert (found["path"], found["related"][0]["path"]) == ("../helper.py", "../kernel.py")
    assert "fixes" not in found  # they are made from the text of the kernel's file
    _, out, _ = run(capsys, tmp_path / "kernel.py", "--format", "json")
    assert str(tmp_path / "helper.py") in {p["path"] for p in json.loads(out)}


HELPER = """import tilelang.language as T

@T.macro
def load(A, a):
    T.copy(A, a)
"""
IMPORTER = """import tilelang
import tilelang.language as T
from helper import load

@tilelang.jit
def k(A):
    A: T.Tensor((64, 64), T.float16)
    with T.Kernel(1) as bx:
        a = T.alloc_shared((64, 32), T.float16)
        load(A, a)
"""
