"""What a kernel's meaning depends on, as a hash: its own text and everything it takes from the module around.

The key does not depend on where in the file the kernel stands. Helper functions count with their distance
from the
kernel as well, because problems may point into them.
"""

from __future__ import annotations

import ast
import bisect
import hashlib
import textwrap
import warnings
from collections.abc import Iterable
from functools import lru_cache

from tilelang.frontend.local_names import assigned_names
from tilelang.frontend.source import Source
from tilelang.parsing import parse

_VERSION = "1"


class CaptureIndex:
    """The top-level statements of a module by the names they bind or change. `kernels`: where its kernels
    stand.
    """

    def __init__(self, source: Source, tree: ast.Module, kernels: Iterable[ast.stmt]) -> None:
        self._source = source
        lines = sorted(k.lineno for k in kernels)
        self._kernels = {
            id(s)
            for s in tree.body
            if (k := bisect.bisect_left(lines, s.lineno)) < len(lines) and lines[k] <= (s.end_lineno or 0)
        }
        self._by_name: dict[str, list[ast.stmt]] = {}
        self._uses: dict[int, frozenset[str]] = {}
        self._stars: list[ast.stmt] = []
        for statement in tree.body:
            if isinstance(statement, ast.ImportFrom) and any(a.name == "*" for a in statement.names):
                self._stars.append(statement)
            for name in touched_names(source, statement):
                self._by_name.setdefault(name, []).append(statement)

    def key(self, node: ast.stmt, first_line: int, extra: Iterable[str], host: Iterable[ast.stmt]) -> str:
        """The key of the kernel at `node`, whose text begins at `first_line`.

        host: statements that call the kernel; what they take from the module decides on specialisations.
        """
        digest = hashlib.sha256(_VERSION.encode())
        lines = self._source.lines[first_line - 1 : node.end_lineno]
        for line in lines:
            digest.update(line.encode("utf-8", "surrogatepass") + b"\n")
        captured = self._captured(node, [node])
        for statement in captured:
            digest.update(b"\0")
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                digest.update(str(statement.lineno - first_line).encode())
            digest.update(self._text(statement))
        calling = list(host)
        if calling:
            # In the order of the text, since a name may be bound again between two calls.
            together = {id(s): s for s in (*captured, *calling, *self._captured(node, calling))}
            for statement in sorted(together.values(), key=lambda s: s.lineno):
                digest.update(b"\0\0\0" + self._text(statement))
        for part in extra:
            digest.update(b"\0\0" + part.encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    def statements(self, node: ast.stmt, host: Iterable[ast.stmt]) -> list[ast.stmt]:
        """All statements of the top level that decide on what the kernel at `node` is."""
        calling = list(host)
        return [node, *self._captured(node, [node]), *calling, *self._captured(node, calling)]

    def captured_names(self, node: ast.stmt) -> frozenset[str]:
        """Every name that the kernel at `node` uses, or what it takes from the module."""
        users = [node, *self._captured(node, [node])]
        return frozenset(name for user in users for name in self._names_in(user))

    def _text(self, statement: ast.stmt) -> bytes:
        lines = self._source.lines[statement.lineno - 1 : statement.end_lineno]
        return "\n".join(lines).encode("utf-8", "surrogatepass")

    def _captured(self, node: ast.stmt, users: Iterable[ast.stmt]) -> list[ast.stmt]:
        """Statements that bind what the `users` use, and what those use, in the order of the text; but for
        the kernel itself, at `node`.
        """
        found: dict[int, ast.stmt] = {id(s): s for s in self._stars}
        pending = {name for user in users for name in self._names_in(user)}
        seen: set[str] = set()
        while pending:
            name = pending.pop()
            if name in seen:
                continue
            seen.add(name)
            for statement in self._by_name.get(name, ()):
                if id(statement) in self._kernels and node not in users:
                    continue  # another kernel: what it does says nothing about this one's calls
                if id(statement) not in found and statement is not node and not _contains(statement, node):
                    found[id(statement)] = statement
                    pending |= self._names_in(statement) - seen
        return sorted(found.values(), key=lambda s: s.lineno)

    def _names_in(self, node: ast.stmt) -> frozenset[str]:
        known = self._uses.get(id(node))
        if known is None:
            known = names_used(statement_text(self._source, node))
            if known is None:  # cut out of its surroundings the text does not parse
                known = frozenset(n.id for n in ast.walk(node) if isinstance(n, ast.Name))
            self._uses[id(node)] = known
        return known


def statement_text(source: Source, node: ast.stmt) -> str:
    """The lines of a statement, its decorators included."""
    decorators = getattr(node, "decorator_list", ())
    first = min([node.lineno, *(d.lineno for d in decorators)])
    return "\n".join(source.lines[first - 1 : node.end_lineno])


@lru_cache(maxsize=4096)
def names_used(text: str) -> frozenset[str] | None:
    """All names in a statement's text; None if it does not parse on its own.

    An editor asks for the whole module at every keystroke, and only one statement has changed since.
    """
    tree = _parsed(text)
    return None if tree is None else frozenset(n.id for n in ast.walk(tree) if isinstance(n, ast.Name))


def _parsed(text: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # Python says these where the file is parsed
            return parse(textwrap.dedent(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _contains(outer: ast.stmt, inner: ast.stmt) -> bool:
    return outer.lineno <= inner.lineno and (outer.end_lineno or 0) >= (inner.end_lineno or 0)


def touched_names(source: Source, statement: ast.stmt) -> frozenset[str]:
    """Names that a statement of the top level binds, or whose value it changes (`configs.append(x)`,
    `table["a"] = 1`).
    """
    known = source.touched.get(id(statement))
    if known is None:
        known = source.touched[id(statement)] = frozenset(_touched(source, statement))
    return known


def _touched(source: Source, statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    names = set(assigned_names(source, [statement]))
    for node in ast.walk(statement):
        if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store):
            root = _root(node)
            if root:
                names.add(root)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            root = _root(node.func)
            if root and isinstance(statement, ast.Expr):
                names.add(root)
    return names


def _root(node: ast.expr) -> str | None:
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None
