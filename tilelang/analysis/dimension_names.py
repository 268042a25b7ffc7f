"""What an author calls the dimensions of tensors: whether two of them are one dimension of the problem.

Numbers do not tell: with M = N = K = 1024 every tile fits everywhere. The annotation does, `T.Tensor((M, K),
dtype)`: names are what a kernel's author says about its sizes.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from tilelang.analysis.subject import Subject
from tilelang.ir.values import Buffer, Unknown, Value, as_int, show
from tilelang.ops.source_edits import argument_of

from tvm import ir  # isort: skip


@dataclass(frozen=True)
class _Written:
    """How a dimension is written: its text, and whether that is one word, which names it."""

    text: str
    word: bool


class DimensionNames:
    """Asked through `subject.shared(DimensionNames)`; a text is read when first asked for."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._known: dict[Buffer, tuple[_Written | None, ...]] = {}

    def text(self, buffer: Buffer, dim: int) -> str:
        """`M` of `T.Tensor((M, K), ...)`, else its size."""
        written = self._of(buffer)[dim]
        return written.text if written is not None and written.word else show(buffer.shape[dim])

    def words(self, buffer: Buffer, dim: int) -> str | None:
        """A dimension's one word in its annotation or as a symbol; None where there is none."""
        written = self._of(buffer)[dim]
        if written is not None and written.word:
            return written.text
        size = buffer.shape[dim]
        return str(size.name) if isinstance(size, ir.Var) else None

    def mentioned(self, buffer: Buffer, dim: int) -> set[str]:
        """The names in a dimension's annotation: `N` of `2 * N // 32`."""
        written = self._of(buffer)[dim]
        if written is None:
            return set()
        return set("".join(c if c.isalnum() or c == "_" else " " for c in written.text).split())

    def same(self, a: Buffer, i: int, b: Buffer, j: int) -> bool | None:
        """Whether two dimensions are one by name; None where names do not say it."""
        if a is b and i == j:
            return True
        x, y = a.shape[i], b.shape[j]
        if isinstance(x, Unknown) or isinstance(y, Unknown):
            return None
        if _differ(x, y):
            return False
        if isinstance(x, ir.Var) and isinstance(y, ir.Var):
            return True
        one, other = self._of(a)[i], self._of(b)[j]
        if one is None or other is None:
            return None
        if one.text == other.text:
            return True
        return False if one.word and other.word else None

    def differ(self, a: Buffer, i: int, b: Buffer, j: int) -> bool:
        """Whether two dimensions may be of different sizes, or are called by different names."""
        x, y = a.shape[i], b.shape[j]
        if isinstance(x, Unknown) or isinstance(y, Unknown):
            return True
        equal = as_int(x) is not None and as_int(x) == as_int(y)
        return self.same(a, i, b, j) is not True and (not equal or self.same(a, i, b, j) is False)

    def made_of_another(self, a: Buffer, i: int, b: Buffer, j: int) -> bool:
        """Whether the first dimension is written otherwise than the second one, a name: `2 * N`, `N`."""
        one, other = self._of(a)[i], self._of(b)[j]
        return one is not None and other is not None and other.word and one.text != other.text

    def _of(self, buffer: Buffer) -> tuple[_Written | None, ...]:
        known = self._known.get(buffer)
        if known is None:
            known = self._known[buffer] = self._read(buffer)
        return known

    def _read(self, buffer: Buffer) -> tuple[_Written | None, ...]:
        nothing = (None,) * len(buffer.shape)
        if buffer.span.path != self._subject.program.span.path:
            return nothing
        shape = argument_of(buffer.span, self._subject.text, 0, "shape")
        if isinstance(shape, ast.Tuple | ast.List):
            if len(shape.elts) != len(buffer.shape):
                return nothing
            return tuple(_written(e) for e in shape.elts)
        if isinstance(shape, ast.Name):  # `shape = (heads, length)`: the same place in the same shape
            return tuple(_Written(f"{shape.id}[{k}]", word=False) for k in range(len(buffer.shape)))
        return nothing


def _written(node: ast.expr) -> _Written | None:
    if not any(isinstance(n, ast.Name) for n in ast.walk(node)):
        return None  # a number is no name
    return _Written(ast.unparse(node), isinstance(node, ast.Name))


def _differ(x: Value, y: Value) -> bool:
    """Different numbers, or different symbols."""
    a, b = as_int(x), as_int(y)
    if a is not None and b is not None:
        return a != b
    return isinstance(x, ir.Var) and isinstance(y, ir.Var) and not x.same_as(y)
