"""A module as the editor sees it: its kernels, found and interpreted from the text alone."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.python import STEP_LIMIT, SYNTAX_ERROR
from tilelang.diagnostics.span import Span
from tilelang.diagnostics.syntax import syntax_error_problem
from tilelang.frontend.environments.kernel_key import CaptureIndex, names_used, statement_text
from tilelang.frontend.environments.old_names import old_names
from tilelang.frontend.environments.rebinding import Rebindings
from tilelang.frontend.environments.static_environment import StaticEnvironment, run_module
from tilelang.frontend.local_names import assigned_names
from tilelang.frontend.python.discovery import Found, find_kernels
from tilelang.frontend.python.imports import may_import_late
from tilelang.frontend.scope import Scope
from tilelang.frontend.source import Parse, Source
from tilelang.parsing import parse

_MAX_NESTING = 200
_MAX_HOST_STATEMENTS = 60


@dataclass(frozen=True, eq=False)
class KernelSource:
    """One kernel of a module. `span` runs from its first decorator to its last line."""

    name: str
    qualified_name: str
    style: Literal["eager", "lazy"]
    span: Span
    name_span: Span
    captures: frozenset[str]  # names it takes from the module, and those they are made from
    key: str  # hash of the text and of what it takes from the module; the same wherever the kernel stands
    found: Found = field(repr=False)


class StaticModule:
    """The kernels of a text. Nothing of the user's is imported or executed.

    `problems`: the error that keeps the module from being read (a syntax error, a null byte, nesting beyond
    reason); then `kernels` is empty. Else warnings about the text as a whole, such as old names of the
    language. `search_path`: folders besides the file's own in which imported modules are looked
    for. `parse`: what makes the syntax tree, see `Source`.
    """

    def __init__(self, path: str, text: str, search_path: tuple[str, ...] = (), parse: Parse = parse) -> None:
        self.path = path
        self.source = Source(path, text, parse)
        self.text = self.source.text
        self.problems: list[Problem] = []
        self.environment = StaticEnvironment(path, search_path)
        self.scope = Scope(self.environment.builtins)
        self.rebindings = Rebindings()
        self.kernels: list[KernelSource] = []
        self.tree = self._parse()
        if self.tree is None:
            return
        try:
            self.rebindings = Rebindings.of(self.source, self.tree.body)
            self.scope = run_module(
                self.environment, self.source, self.tree.body, "__tilelang__", self.rebindings, self.problems
            )
            found = find_kernels(self.tree, self.scope)
        except RecursionError:
            what = "the module is nested too deeply to be read, so none of its kernels is found"
            self.problems.append(STEP_LIMIT.at(Span(self.path, 1, 1, 1, 2), what=what))
            return
        self.problems += old_names(self.source, self.tree, self.scope)
        self.kernels = self._sources(self.tree, found)

    def kernel(self, name: str) -> KernelSource:
        """The kernel with this qualified name (or plain name). Raises KeyError."""
        for kernel in self.kernels:
            if kernel.qualified_name == name:
                return kernel
        for kernel in self.kernels:
            if kernel.name == name:
                return kernel
        raise KeyError(name)

    @contextmanager
    def names_as(self, names: Mapping[str, Any]) -> Iterator[None]:
        """The module's names with other values, as they were before the rest of its text ran."""
        saved = dict(self.scope.names)
        self.scope.names.update(names)
        try:
            yield
        finally:
            self.scope.names.clear()
            self.scope.names.update(saved)

    def _parse(self) -> ast.Module | None:
        try:
            return self.source.tree
        except SyntaxError as error:
            self.problems.append(syntax_error_problem(self.path, self.text, error))
        except (RecursionError, MemoryError):
            what = "the file is nested too deeply to be parsed, so none of its kernels is found"
            self.problems.append(STEP_LIMIT.at(Span(self.path, 1, 1, 1, 2), what=what))
        except ValueError as error:
            self._unreadable(f"the file cannot be parsed: {error}")
        return None

    def _unreadable(self, what: str) -> None:
        self.problems.append(SYNTAX_ERROR.at(Span(self.path, 1, 1, 1, 2), what=what))

    def _sources(self, tree: ast.Module, found: list[Found]) -> list[KernelSource]:
        if not found:
            return []
        index = CaptureIndex(self.source, tree, [k.node for k in found])
        self.environment.read_late_imports(self.source, self._deciding(index, found))
        sources = []
        for kernel in found:
            node = kernel.node
            span = self.source.function_span(node)
            first = comment_block_start(self.source, span.line)
            extra = [kernel.qualified_name, *(f"{p}\0{t}" for p, t in sorted(self.environment.files.items()))]
            extra += [ast.dump(o.args) for o in kernel.outer]
            host = self._host_code(kernel.qualified_name.partition(".")[0], span)
            root = kernel.outer[0] if kernel.outer else node
            key = index.key(root, first, extra, host)
            sources.append(
                KernelSource(
                    node.name,
                    kernel.qualified_name,
                    kernel.style,
                    span,
                    self.source.name_span(node),
                    index.captured_names(root) if self.rebindings.versions or host else frozenset(),
                    key,
                    kernel,
                )
            )
        return sources

    def _deciding(self, index: CaptureIndex, found: list[Found]) -> Iterator[ast.stmt]:
        """The statements on which kernels depend and that may import something when they run."""
        for kernel in found if may_import_late(self.text) else ():
            root = kernel.outer[0] if kernel.outer else kernel.node
            span = self.source.function_span(kernel.node)
            yield from index.statements(root, self._host_code(kernel.qualified_name.partition(".")[0], span))

    @functools.cached_property
    def calling_statements(self) -> dict[str, list[ast.stmt]]:
        """Top-level statements (functions, `if __name__` blocks) by the names they call or pass on."""
        found: dict[str, list[ast.stmt]] = {}
        assert self.tree is not None
        for statement in self.tree.body:
            # A statement of the top level always parses on its own.
            for name in names_used(statement_text(self.source, statement)) or ():
                found.setdefault(name, []).append(statement)
        return found

    def host_code(self, kernel: KernelSource) -> list[ast.stmt]:
        """Statements of the top level from which a call of the kernel may come, in the order of the text."""
        return self._host_code(kernel.qualified_name.partition(".")[0], kernel.span)

    def _host_code(self, root: str, kernel: Span) -> list[ast.stmt]:
        found: dict[int, ast.stmt] = {}
        pending = [root]
        while pending and len(found) < _MAX_HOST_STATEMENTS:
            for statement in self.calling_statements.get(pending.pop(), ()):
                inside = statement.lineno <= kernel.line and kernel.end_line <= (statement.end_lineno or 0)
                if id(statement) in found or inside or kernel.line <= statement.lineno <= kernel.end_line:
                    continue
                found[id(statement)] = statement
                if isinstance(statement, ast.FunctionDef | ast.ClassDef):
                    pending.append(statement.name)
                elif not isinstance(statement, ast.If | ast.Expr):
                    pending += assigned_names(self.source, [statement])
        return sorted(found.values(), key=lambda s: s.lineno)


def comment_block_start(source: Source, line: int) -> int:
    """The first line of the comments directly above `line`."""
    while line > 1 and source.lines[line - 2].lstrip().startswith("#"):
        line -= 1
    return line
