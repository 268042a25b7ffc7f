"""The `tilelang` command as people run it: what it prints, and its exit status."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.kernels import GEMM, GEMM_LINE, TAIL, WRONG_GEMM, problems
from tilelang.cli.main import main
from tilelang.diagnostics.registry import RULES
from tilelang_lsp.runner.run_kernel import OWN_MEANING

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _plain_terminal(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture
def right(tmp_path: Path) -> Path:
    file = tmp_path / "right.py"
    file.write_text(GEMM, encoding="utf-8")
    return file


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    file = tmp_path / "wrong.py"
    file.write_text(WRONG_GEMM, encoding="utf-8")
    return file


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """(exit status, standard output, standard error)."""
    status = main([str(a) for a in arguments])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def codes(out: str) -> list[tuple[str, int]]:
    """(rule, line) of the problems in JSON."""
    return [(p["code"], p["line"]) for p in problems(out)]


def test_check_of_a_right_kernel(capsys, right: Path):
    assert run(capsys, "check", right) == (0, "no problems in 1 file\n", "")


def test_guards_of_a_right_kernel_are_told_when_asked_for_and_are_no_failure(capsys, right: Path):
    status, out, err = run(capsys, "check", right, "--select", TAIL)
    assert (status, err) == (0, "") and out.endswith("\n3 hints in 1 file\n")
    assert out.count(f"hint[{TAIL}]: ") == 3 and "error" not in out and "warning" not in out


def test_check_shows_the_source_the_place_and_a_summary(capsys, wrong: Path):
    status, out, _ = run(capsys, "check", wrong)
    assert status == 1
    assert out.startswith("error[gemm-shape]: ")
    lines = out.splitlines()
    at = next(i for i, line in enumerate(lines) if "T.gemm(A_shared, B_shared, C_local)" in line)
    assert lines[at].startswith(f"{GEMM_LINE} | ")
    start, end = lines[at + 1].index("^"), lines[at + 1].rindex("^") + 1
    assert "A_shared, B_shared" in lines[at][start:end] or lines[at][start:end] in ("A_shared", "B_shared")
    assert lines[-1] == "1 error in 1 file"


def test_check_finds_what_only_lowering_finds(capsys, tmp_path: Path):
    file = tmp_path / "layout.py"
    odd = GEMM.replace(
        "        T.copy(C_local, C[",
        "        for i, j in T.Parallel(block_M, block_N):\n"
        "            C_local[i, j] = T.max(C_local[i, j ^ 2], 0)\n"
        "        T.copy(C_local, C[",
    )
    file.write_text(odd, encoding="utf-8")
    status, printed, _ = run(capsys, "check", file)
    assert status == 1 and "fragment-layout" in printed
    assert run(capsys, "check", file, "--target", "cpu")[0] == 0


def test_check_as_json(capsys, wrong: Path):
    status, out, _ = run(capsys, "check", wrong, "--format", "json")
    (found,) = problems(out)
    assert status == 1
    assert (found["path"], found["line"], found["severity"], found["code"]) == (
        str(wrong),
        GEMM_LINE,
        "error",
        "gemm-shape",
    )
    line = WRONG_GEMM.split("\n")[GEMM_LINE - 1]
    assert line[found["column"] - 1 : found["end_column"] - 1] in ("A_shared", "B_shared")
    assert found["end_line"] == found["line"] and "32" in found["message"] and "64" in found["message"]


def test_json_has_related_places_and_fixes(capsys, tmp_path: Path):
    path = tmp_path / "old.py"
    path.write_text(
        """import tilelang.language as T

@T.macro
def put(s, n):
    s[n] = 0

@T.prim_func
def k(A: T.Buffer((64,), "float32")):
    with T.Kernel(1, threads=64):
        s = T.alloc_shared((64,), "float32")
        T.copy(A, s)
        put(s, 64)
        T.copy(s, A)
""",
        encoding="utf-8",
    )
    _, out, _ = run(capsys, "check", path, "--format", "json")
    bounds, old = sorted(problems(out), key=lambda p: p["line"])
    assert bounds["code"] == "index-out-of-bounds" and "fixes" not in bounds and "tags" not in bounds
    assert [(r["line"], r["column"], r["message"]) for r in bounds["related"]] == [
        (10, 9, "s is float32[64] shared"),
        (12, 9, "called from here"),
    ]
    (fix,) = old["fixes"]
    assert old["tags"] == ["deprecated"] and fix["title"] == "Rename to `T.Tensor`"
    (edit,) = fix["edits"]
    assert (edit["path"], edit["line"], edit["column"], edit["text"]) == (str(path), 8, 12, "Tensor")


def test_check_as_json_of_no_problem_is_an_empty_list(capsys, right: Path):
    assert run(capsys, "check", right, "--format", "json")[:2] == (0, "[]\n")


def test_check_as_sarif(capsys, wrong: Path):
    status, out, _ = run(capsys, "check", wrong, "--format", "sarif")
    (result,) = json.loads(out)["runs"][0]["results"]
    assert (status, result["ruleId"]) == (1, "gemm-shape")


def test_check_walks_folders(capsys, tmp_path: Path, right: Path, wrong: Path):
    (tmp_path / "plain.py").write_text("def f(:\n", encoding="utf-8")  # no kernel: not ours to judge
    status, out, _ = run(capsys, "check", tmp_path)
    assert status == 1 and out.endswith("1 error in 3 files\n")


def test_missing_path_is_named_and_the_others_are_still_checked(capsys, wrong: Path):
    status, out, err = run(capsys, "check", "nowhere.py", wrong)
    assert status == 2
    assert "error[gemm-shape]" in out
    assert err == "tilelang check: nowhere.py: no such file or folder\n"


def test_file_that_is_not_utf8_is_reported_and_the_others_are_still_checked(
    capsys, tmp_path: Path, wrong: Path
):
    (tmp_path / "a.py").write_bytes(b"import tilelang\nname = '\xe9'\n")
    status, out, _ = run(capsys, "check", tmp_path, "--format", "json")
    assert status == 1
    assert codes(out) == [("unreadable-file", 2), ("gemm-shape", GEMM_LINE)]


def test_half_typed_file(capsys, tmp_path: Path):
    (tmp_path / "k.py").write_text(GEMM + "\ndef g(:\n", encoding="utf-8")
    status, out, _ = run(capsys, "check", tmp_path, "--format", "json")
    assert status == 1
    assert [(p["code"], p["line"]) for p in json.loads(out)] == [("syntax-error", GEMM.count("\n") + 2)]


def test_ignore_comment_silences_and_an_unused_one_is_reported(capsys, tmp_path: Path):
    call = "T.gemm(A_shared, B_shared, C_local)"
    silenced = WRONG_GEMM.replace(call, f"{call}  # tilelang: ignore[gemm-shape]")
    (tmp_path / "k.py").write_text(silenced, encoding="utf-8")
    assert run(capsys, "check", tmp_path)[:2] == (0, "no problems in 1 file\n")
    (tmp_path / "k.py").write_text(GEMM.replace(call, f"{call}  # tilelang: ignore[gemm-shape]"), "utf-8")
    status, out, _ = run(capsys, "check", tmp_path, "--format", "json")
    assert (status, codes(out)) == (0, [("unused-ignore", GEMM_LINE)])


def test_project_settings_ignore_a_rule(capsys, tmp_path: Path, wrong: Path):
    ignored = "[tool.tilelang]\nignore = ['gemm-shape']\n"
    (tmp_path / "pyproject.toml").write_text(ignored, encoding="utf-8")
    assert run(capsys, "check", wrong)[:2] == (0, "no problems in 1 file\n")


def test_wrong_project_settings_are_a_usage_error(capsys, tmp_path: Path, wrong: Path):
    (tmp_path / "pyproject.toml").write_text("[tool.tilelang]\nignor = []\n", encoding="utf-8")
    status, _, err = run(capsys, "check", wrong)
    assert status == 2 and "no key 'ignor'" in err


@pytest.mark.parametrize("command", ["check", "compile"])
def test_nothing_of_the_file_is_executed(capsys, tmp_path: Path, command: str):
    mark = tmp_path / "mark"
    file = tmp_path / "k.py"
    file.write_text(f"open({str(mark)!r}, 'w').close()\n{GEMM}", encoding="utf-8")
    status, _, _ = run(capsys, command, file if command == "check" else f"{file}::matmul")
    assert status == 0 and not mark.exists()


def test_compile_prints_cuda(capsys, right: Path):
    status, out, err = run(capsys, "compile", f"{right}::matmul", "--target", "cuda:sm_80")
    assert (status, err) == (0, "")
    assert "__global__" in out and "mma.sync" in out and "A_shared" in out


def test_compile_to_a_file_with_the_only_kernel_and_a_choice(capsys, tmp_path: Path, right: Path):
    first, second = tmp_path / "first.cu", tmp_path / "second.cu"
    assert run(capsys, "compile", right, "-o", first) == (0, "", "")
    assert run(capsys, "compile", right, "-D", "block_M=128", "-o", second) == (0, "", "")
    assert "__global__" in first.read_text() and first.read_text() != second.read_text()


def test_values_of_the_project_count_for_compile(capsys, tmp_path: Path):
    file = tmp_path / "k.py"
    file.write_text(GEMM.replace("block_M: int = 64", "block_M: int"), encoding="utf-8")
    status, _, err = run(capsys, "compile", file)
    assert status == 1 and "matmul has no value for block_M: give one by a default, by -D" in err
    table = "[tool.tilelang.specialisations.matmul]\nblock_M = 128\nblock_N = 32\n"
    (tmp_path / "pyproject.toml").write_text(f'[tool.tilelang]\ntarget = "cuda:sm_80"\n{table}')
    _, out, _ = run(capsys, "compile", file)
    assert out.startswith("// matmul for cuda:sm_80, with block_M=128, block_N=32")
    _, out, _ = run(capsys, "compile", file, "-D", "block_N=64")
    assert out.startswith("// matmul for cuda:sm_80, with block_M=128, block_N=64")


def test_a_misspelt_choice_is_told_before_a_run(capsys, right: Path):
    status, out, err = run(capsys, "run", right, "-D", "blok_M=64")
    assert status == 2 and not out and "did you mean block_M?" in err


def test_annotated_files_say_which_they_are(capsys, tmp_path: Path, right: Path):
    _, alone, _ = run(capsys, "check", right, "--annotate")
    (tmp_path / "other.py").write_text(GEMM, encoding="utf-8")
    _, both, _ = run(capsys, "check", right, tmp_path / "other.py", "--annotate")
    assert "# ---" not in alone
    assert both.startswith(f"# --- {right}\n{alone}") and f"\n# --- {tmp_path / 'other.py'}\n" in both


def test_a_folder_without_files_is_said(capsys, tmp_path: Path):
    status, out, err = run(capsys, "check", tmp_path)
    assert (status, out, err) == (0, "", f"no Python files or notebooks in {tmp_path}\n")
    assert run(capsys, "check", tmp_path, "--format", "json")[:2] == (0, "[]\n")


@pytest.mark.parametrize(("target", "word"), [("hip:gfx942", "__global__"), ("metal", "kernel void")])
def test_compile_for_other_targets(capsys, right: Path, target: str, word: str):
    status, out, _ = run(capsys, "compile", right, "--target", target)
    assert status == 0 and word in out


def test_compile_of_a_wrong_kernel_shows_its_problems(capsys, wrong: Path):
    status, out, err = run(capsys, "compile", wrong)
    assert (status, out) == (1, "") and "error[gemm-shape]" in err and "^" in err


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ("blok_M=64", "matmul has no parameter or size blok_M; did you mean block_M?"),
        ("nope=3", "matmul has no parameter or size nope; it has A, B, "),
        ("M=abc", "M is a size of matmul, so its value must be an integer, not 'abc'"),
    ],
)
def test_compile_with_a_choice_that_is_none(capsys, right: Path, choice: str, said: str):
    status, out, err = run(capsys, "compile", right, "-D", choice)
    assert (status, out) == (2, "") and said in err


def test_compile_of_a_tile_whose_size_needs_a_value(capsys, tmp_path: Path):
    file = tmp_path / "k.py"
    file.write_text(
        GEMM.replace("alloc_shared((block_M, block_K)", "alloc_shared((block_M, K)"), encoding="utf-8"
    )
    status, _, err = run(capsys, "compile", file)
    assert (
        status == 1 and "give K a value (-D K=..., or `# tilelang: specialize(K=...)`" in err and "^" in err
    )


@pytest.mark.parametrize("arch", ["sm_12", "sm_60", "sm_91", "ampere"])
def test_an_unknown_cuda_architecture_is_wrong_usage(capsys, right: Path, arch: str):
    with pytest.raises(SystemExit):
        main(["compile", str(right), "--target", f"cuda:{arch}"])
    assert f"unknown CUDA architecture '{arch}': write one of sm_70, " in capsys.readouterr().err


def test_compile_of_a_kernel_that_is_not_there(capsys, right: Path):
    status, _, err = run(capsys, "compile", f"{right}::matmull")
    assert status == 2 and "no kernel called matmull; did you mean matmul?" in err


def test_compile_of_a_file_without_kernels(capsys, tmp_path: Path):
    (tmp_path / "k.py").write_text("x = 1\n", encoding="utf-8")
    status, _, err = run(capsys, "compile", tmp_path / "k.py")
    assert status == 2 and "has no kernel" in err


def test_compile_into_a_folder_that_is_not_there(capsys, tmp_path: Path, right: Path):
    status, _, err = run(capsys, "compile", right, "-o", tmp_path / "no" / "k.cu")
    assert status == 1 and "cannot be written: No such file or directory" in err


@pytest.mark.parametrize("arguments", [[], ["check"], ["check", "x.py", "--target", "abacus"], ["dance"]])
def test_wrong_usage_is_status_2(capsys, arguments: list[str]):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: tilelang" in capsys.readouterr().err


@pytest.mark.parametrize("rule", ["gemm-shape", "run-mismatch", "run-failed", "analysis-failed"])
def test_explain_prints_the_page(capsys, rule: str):
    status, out, _ = run(capsys, "explain", rule)
    assert status == 0
    assert out == (ROOT / "docs" / "rules" / f"{rule}.md").read_text(encoding="utf-8")


def test_explain_lists_all_rules(capsys):
    status, out, _ = run(capsys, "explain")
    assert status == 0 and [line.split()[0] for line in out.splitlines()] == sorted(RULES)


def test_explain_lists_the_rules_of_a_family(capsys):
    status, out, _ = run(capsys, "explain", "shape")
    names = [line.split()[0] for line in out.splitlines()]
    assert status == 0
    assert names == sorted(r.name for r in RULES.values() if r.family == "shape")


def test_explain_of_an_unknown_rule(capsys):
    status, _, err = run(capsys, "explain", "gemm-shap")
    assert status == 2 and "did you mean gemm-shape?" in err
    status, _, err = run(capsys, "explain", "nonsense")
    assert status == 2 and "did you mean" not in err


def test_help_says_whole_sentences(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    out = " ".join(capsys.readouterr().out.split())
    assert (
        "nothing of theirs is executed." in out
        and "never imported." in out
        and "without one, the CPU." in out
    )


def test_a_missing_file_alone_is_not_reported_as_no_problems(capsys, tmp_path: Path):
    status, out, err = run(capsys, "check", tmp_path / "missing.py")
    assert status == 2 and out == "" and "no such file or folder" in err
    status, out, _ = run(capsys, "check", "--format", "json", tmp_path / "missing.py")
    assert status == 2 and json.loads(out) is not None


def test_the_module_is_the_command_and_a_closed_pipe_is_no_traceback(wrong: Path):
    command = f"{sys.executable} -m tilelang explain | head -n 1"
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.count("\n") == 1 and "Traceback" not in done.stderr


def test_the_command_keeps_torch_out_of_its_own_process(right: Path):
    code = "import sys; from tilelang.cli.main import main; main(); print(sys.modules['torch'])"
    done = subprocess.run(
        [sys.executable, "-c", code, "check", str(right)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "no problems in 1 file\nNone\n"


def test_run_agrees_with_its_reference(capsys, right: Path):
    pytest.importorskip("torch")
    status, out, err = run(capsys, "run", f"{right}::matmul")
    assert status == 0, err
    assert out.startswith("matmul agrees with ref_matmul on ") and "pass" in out


def test_run_of_a_kernel_that_computes_something_else(capsys, tmp_path: Path):
    pytest.importorskip("torch")
    (tmp_path / "k.py").write_text(GEMM.replace("return A @ B", "return A @ B + 1"), encoding="utf-8")
    status, out, _ = run(capsys, "run", tmp_path / "k.py", "--format", "json")
    result = json.loads(out)
    assert status == 1 and result["passed"] is False and result["cases"][0]["mismatched"] > 0


def test_run_without_a_reference_compares_with_the_meaning_of_the_program(capsys, tmp_path: Path):
    pytest.importorskip("torch")
    (tmp_path / "k.py").write_text(GEMM[: GEMM.index("def ref_matmul")], encoding="utf-8")
    status, out, err = run(capsys, "run", tmp_path / "k.py")
    assert status == 0, err
    assert out.startswith(f"matmul agrees with {OWN_MEANING} on ") and "pass" in out


def test_run_that_does_not_end_is_ended(capsys, tmp_path: Path):
    pytest.importorskip("torch")
    (tmp_path / "k.py").write_text(GEMM + "\nwhile True:\n    pass\n", encoding="utf-8")
    status, _, err = run(capsys, "run", tmp_path / "k.py", "--timeout", "1")
    assert status == 1 and "did not finish within 1 s" in err


def test_run_of_a_wrong_kernel_starts_nothing(capsys, wrong: Path):
    status, _, err = run(capsys, "run", wrong)
    assert status == 1 and "error[gemm-shape]" in err
