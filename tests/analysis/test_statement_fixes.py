"""Quick fixes that write or move whole statements: each says the very text that it makes."""

from __future__ import annotations

import pytest

from tests.analysis.kernels import fixed, source
from tests.diagnostics.fixing import fixings, problems

KERNEL = """
@tilelang.jit
def k(A, O):
    A: T.Tensor((64, 32), T.float32)
    O: T.Tensor((64, 32), T.float32)
    with T.Kernel(1, threads=128) as bx:
        tx = T.get_thread_binding()
        s = T.alloc_shared((64, 32), T.float32)
        f = T.alloc_fragment((64, 32), T.float32)  # the tile
        r = T.alloc_fragment((1,), T.float32)
        T.copy(A, s)
        T.copy(A, f)
        T.clear(r)
{body}
        T.copy(f, O)
        O[0, 0] += s[0, 0] + r[0]
"""

FIXES = [
    ("buffer-augmented", "f += 1  # all", "for i, j in T.Parallel(64, 32):\n    f[i, j] += 1  # all"),
    ("buffer-augmented", "s *= s", "for i, j in T.Parallel(64, 32):\n    s[i, j] *= s[i, j]"),
    ("buffer-augmented", "f[8:16, :] -= 2", "for i, j in T.Parallel(8, 32):\n    f[8 + i, j] -= 2"),
    (
        "buffer-augmented",
        "for i in T.serial(4):\n    f += i",
        "for i in T.serial(4):\n    for ii, jj in T.Parallel(64, 32):\n        f[ii, jj] += i",
    ),
    (
        "divergent-barrier",
        "if tx < 30:\n    T.sync_threads()  # all\n    O[tx, 0] = s[tx, 0]",
        "T.sync_threads()  # all\nif tx < 30:\n    O[tx, 0] = s[tx, 0]",
    ),
    (
        "divergent-barrier",
        "if tx < 30:\n    s[tx, 0] = 1\n    T.sync_threads()  # all\n    O[tx, 0] = s[tx, 1]",
        "if tx < 30:\n    s[tx, 0] = 1\nT.sync_threads()  # all\nif tx < 30:\n    O[tx, 0] = s[tx, 1]",
    ),
    (
        "divergent-barrier",
        "if tx < 30:\n    s[tx, 0] = 1\n    T.sync_threads()",
        "if tx < 30:\n    s[tx, 0] = 1\nT.sync_threads()",
    ),
    ("divergent-barrier", "if tx < 30:\n    T.sync_threads()", "T.sync_threads()"),
    (
        "uncoalesced-access",
        "for j, i in T.Parallel(32, 64):\n    O[i, j] = A[i, j]",
        "for i, j in T.Parallel(64, 32):\n    O[i, j] = A[i, j]",
    ),
    (
        "fragment-cross-thread",
        "# turned\nfor i, j in T.Parallel(64, 32):\n    O[i, j] = f[i, j] + f[(i + 1) % 64, j]",
        "# turned\nT.copy(f, f_shared)\nfor i, j in T.Parallel(64, 32):\n"
        "    O[i, j] = f[i, j] + f_shared[(i + 1) % 64, j]",
    ),
    (
        "tile-as-scalar",
        "for i, j in T.Parallel(64, 32):\n    f[i, j] += s",
        "for i, j in T.Parallel(64, 32):\n    f[i, j] += s[i, j]",
    ),
    ("tile-as-scalar", "f[0, 0] = r + 1", "f[0, 0] = r[0] + 1"),
    (
        "nested-tile-op",
        "for i in T.Parallel(64):\n    T.copy(A[i, 0:32], s[i, 0:32])",
        "for i in T.serial(64):\n    T.copy(A[i, 0:32], s[i, 0:32])",
    ),
    (
        "unsupported-nesting",
        "for i in T.Parallel(64):\n    for j in T.Pipelined(32, num_stages=2):\n        O[i, j] = A[i, j]",
        "for i in T.Parallel(64):\n    for j in T.serial(32):\n        O[i, j] = A[i, j]",
    ),
]

NONE = [
    # another value than one number or a tile of this shape
    ("buffer-augmented", "f += r"),
    # what is updated in an iteration is an element, and which one nobody knows
    ("buffer-augmented", "for i in T.Parallel(64):\n    f += 1"),
    # the other branch has threads that come to a barrier too
    (
        "divergent-barrier",
        "if tx < 30:\n    T.sync_threads()\n    O[tx, 0] = 1\nelse:\n    T.sync_threads()\n    O[tx, 0] = 2",
    ),
    # a condition that is more than names and numbers is not written twice
    (
        "divergent-barrier",
        "if T.max(tx, 3) < 30:\n    s[tx, 0] = 3\n    T.sync_threads()\n    O[tx, 0] = s[tx, 1]",
    ),
    # one side of a transposition has a wrong order either way
    ("uncoalesced-access", "for i, j in T.Parallel(32, 64):\n    O[j, i] = A[i, j % 32]"),
    # the copy would be of what was there before the loop
    (
        "fragment-cross-thread",
        "for i, j in T.Parallel(64, 32):\n    f[i, j] = 1\n    O[i, j] = f[(i + 1) % 64, j]",
    ),
    ("tile-as-scalar", "for i in T.Parallel(64):\n    O[i, 0] = s"),
    ("nested-tile-op", "for i in T.Parallel(64):\n    T.copy(A[i, 0:32], s[i, 0:32])\n    O[i, 0] = A[i, 0]"),
]


def text_with(body: str) -> str:
    return source(KERNEL.format(body="\n".join(" " * 8 + line for line in body.split("\n"))))


@pytest.mark.parametrize(("rule", "body", "after"), FIXES)
def test_the_text_that_a_fix_writes(rule: str, body: str, after: str):
    text = text_with(body)
    fixing = next(f for f in fixings(text) if f.problem.rule == rule)
    made = fixed(text, fixing.fix)
    made = made.replace("        f_shared = T.alloc_shared((64, 32), T.float32)\n", "", 1)
    assert made == text_with(after)
    assert fixing.faults() == []


@pytest.mark.parametrize(("rule", "body"), NONE)
def test_no_fix_that_would_mean_something_else(rule: str, body: str):
    text = text_with(body)
    assert [f.fix.title for f in fixings(text) if f.problem.rule == rule] == []
    assert rule in {p.rule for p in problems(text)}
