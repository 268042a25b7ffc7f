"""tilelang.autodd: smaller programs that fail alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilelang.autodd import main, reduce

PROGRAM = '''
import math

def helper(x):
    """Nothing to do with it."""
    return x + 1

def work(values):
    total = 0
    for v in values:
        if v > 2:
            total += helper(v) * 2 + v // (v - 3)
    return total

numbers = [1, 2, 3, 4]
print(math.pi)
work(numbers)
'''


def test_what_does_not_matter_is_left_out() -> None:
    def fails(source: str) -> bool:
        try:
            exec(compile(source, "p.py", "exec"), {})
        except ZeroDivisionError:
            return True
        except (NameError, TypeError, SyntaxError, AttributeError, IndexError, ImportError):
            return False
        return False

    smaller = reduce(PROGRAM, fails)
    assert fails(smaller)
    assert "helper" not in smaller and "math" not in smaller
    assert len(smaller.splitlines()) <= 6


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.py").write_text("import os\n\nx = [1]\nprint(os.sep)\nx[3]\n")
    out = tmp_path / "out.py"
    assert main([str(tmp_path / "p.py"), "--err-msg", "list index out of range", "-o", str(out)]) == 0
    assert "os" not in out.read_text() and "x[3]" in out.read_text()
    assert "lines of 5" in capsys.readouterr().out
    assert main([str(tmp_path / "p.py"), "--err-msg", "no such text", "-o", str(out)]) == 1
    assert "does not print the text" in capsys.readouterr().err
