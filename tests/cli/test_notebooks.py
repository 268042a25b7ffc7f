"""`tilelang check` on notebooks: cells joined, magics ignored, problems told by cell and line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tilelang.cli.main import main

SETUP = [
    "%pip install tilelang-lsp\n",
    "import tilelang\n",
    "import tilelang.language as T\n",
    "BLOCK = 64\n",
    "BLOCK?",
]
KERNEL = """@tilelang.jit
def k(A):
    A: T.Tensor((BLOCK,), T.float32)
    with T.Kernel(1, threads=64) as bx:
        T.coppy(A, A)
        A[0] = (7
            % 3)"""
RIGHT = KERNEL.replace("T.coppy(A, A)", "T.fill(A, 0)")


def notebook(folder: Path, *cells: object, kinds: str = "") -> Path:
    """A notebook of code cells; a letter m in `kinds` makes the cell of that number Markdown."""
    made = [
        {"cell_type": "markdown" if kinds[k : k + 1] == "m" else "code", "source": source, "metadata": {}}
        for k, source in enumerate(cells)
    ]
    path = folder / "kernels.ipynb"
    path.write_text(json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    return path


def checked(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[dict[str, object]]]:
    status = main(["check", "--format", "json", str(path)])
    return status, json.loads(capsys.readouterr().out)


def test_a_problem_stands_in_its_cell(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = notebook(tmp_path, "# Kernels", SETUP, "%%time\nnot python at all", KERNEL, kinds="m")
    status, (problem,) = checked(path, capsys)
    assert status == 1
    assert problem["code"] == "unknown-language-name" and problem["path"] == str(path)
    assert (problem["cell"], problem["line"], problem["column"]) == (4, 5, 11)


def test_a_cell_that_is_no_python_leaves_the_others_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = notebook(tmp_path, SETUP, "x = (1", RIGHT)
    _, problems = checked(path, capsys)
    assert [(p["code"], p["cell"], p["line"]) for p in problems] == [("syntax-error", 2, 1)]


@pytest.mark.parametrize(
    "cell", ["%run sizes.ipynb", "%%cython\nROWS = 8", "ROWS = 8\nx = (", "  ROWS = 8", "ROWS, = !nproc"]
)
def test_names_that_a_cell_may_bind_are_no_mistake_in_others(
    cell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    kernel = RIGHT.replace("A[0]", "A[ROWS]")
    _, problems = checked(notebook(tmp_path, SETUP, cell, kernel), capsys)
    assert [p["code"] for p in problems] == (["syntax-error"] if "(" in cell else [])


def test_what_parses_in_a_broken_cell_is_known_to_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """The imports above what is being typed, the kernel below it."""
    path = notebook(tmp_path, [*SETUP, "\nx = (\n\n", KERNEL], KERNEL)
    _, problems = checked(path, capsys)
    assert [(p["code"], p["cell"], p["line"]) for p in problems] == [
        ("syntax-error", 1, 6),
        ("unknown-language-name", 1, 12),
        ("unknown-language-name", 2, 5),
    ]


def test_a_notebook_whose_only_cell_is_broken_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    status, (problem,) = checked(notebook(tmp_path, "import tilelang\nx = ("), capsys)
    assert status == 1 and (problem["code"], problem["cell"], problem["line"]) == ("syntax-error", 1, 2)


def test_folders_are_searched_for_notebooks_and_excerpts_come_from_cells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = notebook(tmp_path, SETUP, KERNEL)
    before = path.read_text()
    assert main(["check", str(tmp_path)]) == 1
    shown = capsys.readouterr().out
    assert "kernels.ipynb#2:5:11" in shown and "T.coppy(A, A)" in shown and "+         T.copy(A, A)" in shown
    assert path.read_text() == before


@pytest.mark.parametrize("as_list", [True, False])
@pytest.mark.parametrize("indent", [1, None])
def test_fixes_are_written_into_their_cells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], as_list: bool, indent: int | None
):
    """Outputs, metadata, magics and the spacing of the file stay as they were, byte by byte."""
    kernel = KERNEL.replace("T.fill(A, 0)", "").replace(
        "T.coppy(A, A)", "T.fil(A, 0)  # größer\n        T.clera(A)"
    )
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": "# T.clera"},
        {"cell_type": "code", "source": SETUP, "metadata": {"a": [1, 2]}, "outputs": [{"text": "é"}]},
        {
            "cell_type": "code",
            "outputs": [],
            "source": kernel.splitlines(keepends=True) if as_list else kernel,
            "metadata": {},
        },
        {"cell_type": "code", "source": "%timeit k(1)\nx = 3", "metadata": {}},
    ]
    path = tmp_path / "kernels.ipynb"
    content = {"cells": cells, "metadata": {}, "nbformat": 4}
    before = json.dumps(content, indent=indent, ensure_ascii=False) + "\n"
    path.write_text(before, encoding="utf-8")
    assert main(["check", "--diff", str(path)]) == 1
    assert "T.clear(A)" in capsys.readouterr().out and path.read_text(encoding="utf-8") == before
    assert main(["check", "--fix", str(path)]) == 0
    after = path.read_text(encoding="utf-8")
    assert after == before.replace("T.fil(", "T.fill(").replace("T.clera(A)", "T.clear(A)")
    assert "fixed: unknown-language-name (2)" in capsys.readouterr().out


def test_a_fix_that_adds_and_removes_lines_moves_no_other_cell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    kernel = """@tilelang.jit
def product(A, B, C):
    N, M = T.const("N, M")
    A: T.Tensor((64, N), T.float16)
    B: T.Tensor((N, 64), T.float16)
    C: T.Tensor((64, 64), T.float32)
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, 64), T.float16)
        b = T.alloc_shared((64, 64), T.float16)
        c = T.alloc_fragment((64, 64), T.float32)
        for k in T.Pipelined(T.ceildiv(N, 64), num_stages=2):
            T.copy(A[0, k * 64], a)
            T.copy(B[k * 64, 0], b)
            T.gemm(a, b, c)
        T.copy(c, C)"""
    path = notebook(tmp_path, SETUP, kernel, "%matplotlib inline\nx = 3", KERNEL)
    main(["check", "--fix", str(path)])
    capsys.readouterr()
    sources = [c["source"] for c in json.loads(path.read_text())["cells"]]
    assert sources[0] == SETUP and sources[2] == "%matplotlib inline\nx = 3"
    assert sources[3] == KERNEL.replace("coppy", "copy")
    assert 'N = T.const("N")' in sources[1] and "        T.clear(c)\n" in sources[1]


@pytest.mark.parametrize("text", ["{", "[]", '{"cells": 3}', '{"cells": [3, {"cell_type": "code"}]}'])
def test_what_is_no_notebook_is_said(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "broken.ipynb"
    path.write_text(text)
    status, problems = checked(path, capsys)
    if "code" in text:
        assert status == 0 and problems == []
    else:
        assert status == 1 and [p["code"] for p in problems] == ["unreadable-file"]


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("by_lines", [True, False])
def test_sarif_places_problems_in_the_file(
    indent: int | None,
    ascii_only: bool,
    by_lines: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):
    kernel = KERNEL.replace("T.coppy(A, A)", 'x = "\\t ü 𝄞"; T.coppy(A, A)')
    texts = ("".join(SETUP), kernel)
    cells = [c.splitlines(keepends=True) if by_lines else c for c in texts]
    path = notebook(tmp_path, *cells)
    path.write_text(json.dumps(json.loads(path.read_text()), indent=indent, ensure_ascii=ascii_only), "utf-8")
    main(["check", "--format", "sarif", str(path)])
    (result,) = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    (location,) = result["locations"]
    assert location["logicalLocations"][0]["name"] == "cell 2, line 5"
    physical = location["physicalLocation"]
    assert physical["artifactLocation"]["uri"] == path.as_uri()
    region = physical["region"]
    line = path.read_text("utf-8").split("\n")[region["startLine"] - 1]
    assert region["endLine"] == region["startLine"]
    assert line[region["startColumn"] - 1 : region["endColumn"] - 1] == "coppy"


def test_a_kernel_of_a_notebook_is_compiled(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = notebook(tmp_path, SETUP, KERNEL, RIGHT.replace("def k", "def right"), "x = (")
    assert main(["compile", f"{path}::right", "--target", "cuda:sm_80"]) == 0
    assert capsys.readouterr().out.startswith("// right for cuda:sm_80")
    assert main(["compile", f"{path}::k"]) == 1
    shown = capsys.readouterr().err
    assert "kernels.ipynb#2:5:11" in shown and "T.coppy(A, A)" in shown
    assert main(["run", f"{path}::right"]) == 2
    assert "kernels.ipynb is a notebook" in capsys.readouterr().err
    path.write_text("{")
    assert main(["compile", str(path)]) == 1 and "is no notebook" in capsys.readouterr().err
