"""What IPython adds to Python, taken out of cells without moving a line."""

from __future__ import annotations

import ast
import sys
import time

import pytest

from tilelang.facts.notebook_cells import readable_cell


@pytest.mark.parametrize(
    "cell",
    [
        "%load_ext autoreload\n%autoreload 2\nx = 1",
        "!pip install tilelang \\\n    torch\nx = 1",
        "files = !ls\nx = 1",
        "res = %timeit -o f(3)\nx = 1",
        "a, b = !echo 1\nx = 1",
        "?f\nf?\nf.g??\nx = 1",
        "if True:\n    %time f()\nx = 1",
        "def f():\n    !ls\n    return 1\nx = 1",
        "x = (7\n  % 3)\n!ls",
        "x = 1 \\\n  % 3\n!ls",
        "x = '''\n!ls\n%pwd\n'''\n!ls",
        "x = [\n  'it is', # (\n  3]\n%pwd",
        "%%time\nx = 1",
        "\n%%capture out\nx = 1\n%pwd",
        "await f()\nx = 1",
        "x = '\\'('\n!ls",
        "x: list = !ls\nx[0] = %sx ls\n(x, *y) = !ls",
        "/f 1\n,f 1 2\n;f 1 2\nx = 1",
    ],
)
def test_cells_with_magics_are_python(cell: str):
    read = readable_cell(cell.split("\n"))
    text, error = read.text, read.error
    assert error is None
    assert text.count("\n") == cell.count("\n")
    bound = {n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name)}
    assert "x" in bound, text


@pytest.mark.parametrize(
    "cell", ["%%bash\nls -la", "%%timeit\nx = 1", "%%writefile a.py\nclass", "%%html\n<p>"]
)
def test_cells_of_other_programs_are_comments(cell: str):
    read = readable_cell(cell.split("\n"))
    text, error = read.text, read.error
    assert error is None and set(text) == {"#", "\n"}


@pytest.mark.parametrize(
    ("cell", "line", "text"),
    [
        ("!ls\nx = (", 2, "pass\n{}"),
        ("%pwd\nx = 1\ndef f(:\n  pass", 3, "pass\nx = 1\n{}\n#"),
        # What is open has swallowed the statements below it.
        (
            "x = (\n\n@jit\ndef f():\n    return 1\n!ls\ny = 2",
            1,
            "{}\n#\n@jit\ndef f():\n    return 1\npass\ny = 2",
        ),
        ("f(a,\nb=2,\nif x:\n    y = 1\nelse:\n    y = 2", 1, "{}\n{}\nif x:\n    y = 1\nelse:\n    y = 2"),
        ("if x:\ny = 1\nelif z:\n    w = 1", 2, "{}\n{}\n#\n#"),
        ("s = '''\na = 1\n'''\nb = )", 4, "s = '''\na = 1\n'''\n{}"),
        ("@jit\ndef f():\n    x = (\n@jit\ndef g():\n    pass", 3, "{}\n{}\n#\n@jit\ndef g():\n    pass"),
    ],
)
def test_what_is_no_python_says_where_and_the_rest_stays(cell: str, line: int, text: str):
    read = readable_cell(cell.split("\n"))
    assert read.error is not None and read.text == text.replace("{}", OPEN)
    if sys.version_info >= (3, 11):
        assert read.error.lineno == line
    gone = {n for first, end in read.broken for n in range(first, end)}
    lines = read.text.split("\n")
    assert (
        gone == {n for n, one in enumerate(lines) if one in (OPEN, "#")}
        and len(lines) == cell.count("\n") + 1
    )


def test_cells_that_do_not_parse_are_read_fast():
    cell = "\n".join(["x = (", "def f():", "    y = [", ""] * 300).split("\n")
    started = time.perf_counter()
    read = readable_cell(cell)
    assert read.broken[-1][1] == len(cell) and time.perf_counter() - started < 3


OPEN = "from __magic__ import *"


@pytest.mark.parametrize(
    "cell",
    [
        "%run setup.py",
        "%time SIZE = 128",
        "if True:\n    %store -r",
        "%%cython\nSIZE = 128",
        "%%bash --out SIZE\nls",
        "  SIZE = 128\n  x = 1",
    ],
)
def test_what_may_bind_any_name_leaves_them_open(cell: str):
    read = readable_cell(cell.split("\n"))
    text, error = read.text, read.error
    assert error is None and OPEN in text and text.count("\n") == cell.count("\n")


@pytest.mark.parametrize(
    "cell", ["%matplotlib inline", "!ls", "%%bash\nls", "%timeit f()", "%%time\nx = 1", "f?"]
)
def test_what_binds_no_name_leaves_none_open(cell: str):
    assert OPEN not in readable_cell(cell.split("\n")).text
