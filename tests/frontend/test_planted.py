"""Kernels in the styles of real projects, each with one mistake deep inside that reading the text must find.

The files of `planted/` mark the line with `# wrong`. That it is found shows that everything around is
understood: constants from the environment, factories under caches and partials, classes, packages.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tilelang.analysis.check import check_source
from tilelang.cli.notebooks import read_notebook
from tilelang.diagnostics.problem import Severity

HERE = Path(__file__).parent / "planted"
FILES = sorted(p.relative_to(HERE) for p in HERE.rglob("*.py") if "# wrong" in p.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files outside of this project, whose folders would be theirs."""
    copied = tmp_path_factory.mktemp("projects") / "planted"
    shutil.copytree(HERE, copied)
    for project in ("installed", "project"):
        (copied / project / "pyproject.toml").write_text("[project]\nname = 'x'\n", encoding="utf-8")
    return copied


@pytest.mark.parametrize("file", FILES, ids=str)
def test_the_planted_mistake_is_found_and_no_other_error(file: Path, folder: Path):
    path = folder / file
    text = path.read_text(encoding="utf-8")
    (wrong,) = [n for n, line in enumerate(text.splitlines(), 1) if "# wrong" in line]
    found = check_source(str(path), text, "cuda:sm_90").all_problems()
    assert {p.span.line for p in found if p.severity is Severity.ERROR} == {wrong}, found


def test_there_are_many_styles():
    assert len(FILES) >= 35


KERNEL = """@tilelang.jit
def k(A):
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    with T.Kernel(T.ceildiv(N, BLOCK), threads=64) as b:
        f = T.alloc_fragment((BLOCK,), T.float32)
        g = T.alloc_fragment((64,), T.float32)
        T.copy(A[b * BLOCK], f)
        T.copy(f, g)
        T.copy(g[:32], A[b * BLOCK])
"""
SETUP = "import tilelang\nimport tilelang.language as T\n%matplotlib inline\nfiles = !ls\nBLOCK = 64\n"


@pytest.mark.parametrize(
    ("cells", "wrong"),
    [
        ((SETUP, KERNEL, "%%time\nk(x)", "?k", "%%bash\nfor f in *; do echo $f; done"), set()),
        ((SETUP.replace("64", "48"), "%load_ext a", KERNEL, "res = %timeit -o k(x)"), {3}),
        ((SETUP, KERNEL, "k(x)", "BLOCK = 48", KERNEL, "k(x)"), {5}),
        ((SETUP, KERNEL, "BLOCK = 48"), set()),
        ((SETUP, "BLOCK = int(input())", KERNEL), set()),
    ],
)
def test_mistakes_in_notebooks_stand_in_their_cells(cells: tuple[str, ...], wrong: set[int]):
    content = {"cells": [{"cell_type": "code", "source": c} for c in cells]}
    notebook = read_notebook("book.ipynb", json.dumps(content))
    found = notebook.in_cells(check_source("book.ipynb", notebook.text, "cuda:sm_90").all_problems())
    errors = [p for p in (*found, *notebook.in_cells(notebook.problems)) if p.severity is Severity.ERROR]
    assert {int(p.span.path.partition("#")[2]) for p in errors} == wrong, errors
