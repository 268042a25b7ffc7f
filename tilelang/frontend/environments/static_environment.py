"""The static environment: names of a module's own source, modelled modules, sources of the workspace.

Nothing of the user's is imported or executed: a call that is neither of the language, nor interpreted, nor
one of the pure functions listed in `modelled_modules` is Unknown.
"""

from __future__ import annotations

import ast
import builtins
import functools
import json
import math
import os
import re
import time
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import tilelang.language as language
from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.python import UNKNOWN_LANGUAGE_NAME
from tilelang.frontend.arguments import Argument, plain
from tilelang.frontend.dtypes import dtype_name
from tilelang.frontend.environments.import_roots import is_file, is_standard, project_roots
from tilelang.frontend.environments.rebinding import Rebindings
from tilelang.frontend.local_names import assigned_names
from tilelang.frontend.model import (
    NO_VALUE,
    Auto,
    ClassValue,
    Function,
    Instance,
    JitFunction,
    ModuleValue,
    TooLong,
)
from tilelang.frontend.python.classes import instantiate
from tilelang.frontend.python.functions import call_function
from tilelang.frontend.python.imports import LANGUAGE_MODULES, late_imports, may_import_late
from tilelang.frontend.python.interpreter import new_run
from tilelang.frontend.python.modelled_modules import (
    NAMESPACE,
    PURE_MODULES,
    AutoFunction,
    FieldFunction,
    HostTensor,
    NamespaceFunction,
    TensorFactory,
    modelled_modules,
)
from tilelang.frontend.python.operator_functions import OPERATOR_FUNCTIONS
from tilelang.frontend.python.program_start import call_getenv
from tilelang.frontend.run import Limits, Run, StopInterpreting
from tilelang.frontend.scalars import any_traced, any_unknown
from tilelang.frontend.scope import Scope
from tilelang.frontend.source import Source
from tilelang.ir.values import Unknown
from tilelang.language.released_parts import LANGUAGE_PARTS

MODULE_LIMITS = Limits(steps=60_000, depth=30, sequence=10_000)
_OPENING = ("globals", "exec", "get_ipython")
# A statement `global x`, or a call of one of these; "global" itself stands in the text of most kernels.
_MAY_OPEN = re.compile(r"(?:^|[;:])\s*global\s|\bglobals\s*\(|\bexec\s*\(|get_ipython")
_MAX_SOURCE = 2_000_000  # bytes of a workspace module
_CLOCK_TICK_NS = 50_000_000  # file systems note times to some milliseconds
_GROWING = (math.factorial, math.comb, math.perm)  # whose results have more digits than one waits for
_PURE = frozenset(id(v) for module in PURE_MODULES for v in vars(module).values() if callable(v))


class StaticEnvironment:
    """One per analysed module. `files` notes every workspace file that was read, with its text."""

    static = True

    def __init__(self, path: str, search_path: tuple[str, ...] = ()) -> None:
        self._folder = Path(path).parent
        self._search = tuple(Path(p) for p in search_path)
        self._loaded: dict[Path, ModuleValue] = {}
        self.files: dict[str, str] = {}
        self._roots: dict[Path, tuple[Path, ...]] = {}
        self._sources: list[Source] = []  # of the files read
        self._base: dict[str, Path] = {path: self._folder}  # folder of each source, for relative imports
        self.builtins = Scope(names=dict(vars(builtins)), owner="builtins")

    # -- names

    def global_name(self, run: Run, scope: Scope, name: str) -> Any:
        """A name no scope holds: Unknown if some construct may have made it, else it does not exist."""
        root: Scope | None = scope
        while root is not None:
            if id(root) in run.open_scopes or name in root.unlisted or "*" in root.unlisted:
                return Unknown(f"`{name}` may come from elsewhere")
            root = root.parent
        if name.startswith("__") and name.endswith("__"):
            return Unknown(f"`{name}` is set by Python")
        return NO_VALUE

    def global_names(self, scope: Scope) -> list[str]:
        return []  # the builtins are a scope here

    def attribute(self, run: Run, owner: Any, name: str) -> Any:
        return Unknown("an attribute that is not known to the compiler")

    # -- calls

    def call(
        self, run: Run, node: ast.Call, function: Any, args: list[Argument], kwargs: dict[str, Argument]
    ) -> Any:
        """Pure functions of the standard library, tensor factories of torch; everything else is Unknown."""
        values = [plain(a) for a in args]
        named = {k: plain(a) for k, a in kwargs.items()}
        if isinstance(function, TensorFactory):
            return _host_tensor(function, values, named)
        if isinstance(function, FieldFunction):
            factory = named.get("default_factory")
            if isinstance(factory, Function):
                return call_function(run, factory, [], {}, node, run.span(node))
            if factory in (list, dict, set):
                return factory()
            if isinstance(factory, ClassValue):
                return instantiate(run, node, factory, [], {})
            if factory is not None:
                return Unknown("what the field's factory makes is not known to the compiler")
            return named.get("default", NO_VALUE)
        if isinstance(function, AutoFunction):
            return Auto()
        if function is os.getenv:
            return call_getenv(args, kwargs)
        if isinstance(function, NamespaceFunction):
            return Instance(NAMESPACE, named) if not values else Unknown("the names are not known")
        if function is json.loads and len(values) == 1 and type(values[0]) is str:
            return run.guarded_native(node, json.loads, values, {})
        if function is functools.partial:
            unknown = any_unknown(values[:1])
            known = bool(values) and (
                isinstance(values[0], Function | JitFunction | functools.partial)
                or any(values[0] is f for f in OPERATOR_FUNCTIONS)
            )
            if unknown is not None or not known:
                return Unknown("the function is not known to the compiler") if unknown is None else unknown
            return run.guarded_native(node, function, values, named)
        if id(function) in _PURE:
            unknown = any_unknown([*values, named])
            if unknown is not None:
                return unknown
            if any(callable(v) and not isinstance(v, Function) for v in (*values, *named.values())):
                return Unknown("a function that the compiler does not run")
            largest = 1000 if function in _GROWING else 10**6
            if any_traced([*values, named]) or any(isinstance(v, int) and abs(v) > largest for v in values):
                return Unknown("this function is not computed by the compiler")
            return run.guarded_native(node, function, values, named)
        return Unknown(f"`{ast.unparse(node.func)}` is not known to the compiler")

    # -- modules

    def module(self, run: Run, name: str, level: int) -> Any:
        """A modelled module, a module of the workspace read as source, or Unknown."""
        return self._module(run.source, name, level)

    def read_late_imports(self, source: Source, statements: Iterable[ast.stmt]) -> None:
        """Read what functions in `statements`, and those of all files read, import when they are called.

        So `files` says all that a kernel may depend on before any is interpreted.
        """
        for name, level in late_imports(statements):
            self._module(source, name, level)
        for other in self._sources:  # grows
            if other.late_imports is None:
                found = late_imports(other.tree.body) if may_import_late(other.text) else ()
                other.late_imports = tuple(dict.fromkeys(found))
            for name, level in other.late_imports:
                self._module(other, name, level)

    def _module(self, source: Source, name: str, level: int) -> Any:
        if level == 0:
            if name in LANGUAGE_MODULES or name in LANGUAGE_PARTS:
                return language
            known = modelled_modules().get(name)
            if known is not None:
                return known
            if name.startswith(("tilelang.", "torch.")):
                return Unknown(f"`{name}` is not known to the compiler")
        file = self._find(source, name, level)
        if file is None:
            return Unknown(f"the module `{'.' * level}{name}` is not known to the compiler")
        return self._load(file, name)

    def _find(self, source: Source, name: str, level: int) -> Path | None:
        base = self._base.get(source.path, self._folder)
        if level:
            for _ in range(level - 1):
                base = base.parent
            roots = (base,)
        else:
            beyond = () if is_standard(name) else self._roots_of(base)
            roots = (base, *self._search, *beyond)
        parts = [p for p in name.split(".") if p]
        for root in roots:
            place = root.joinpath(*parts)
            for candidate in (place.with_suffix(".py") if parts else None, place / "__init__.py"):
                if candidate is not None and is_file(candidate):
                    return candidate.resolve()
        return None

    def _roots_of(self, folder: Path) -> tuple[Path, ...]:
        if folder not in self._roots:
            self._roots[folder] = project_roots(folder)
        return self._roots[folder]

    def _load(self, file: Path, name: str) -> Any:
        if file in self._loaded:
            return self._loaded[file]  # perhaps still being read: imports may go in circles
        module = ModuleValue(name, {}, open=True, of_workspace=True)
        self._loaded[file] = module
        source = _source(file)
        if source is None:
            return module
        self.files[str(file)] = source.text
        self._sources.append(source)
        self._base[str(file)] = file.parent
        scope = run_module(self, source, source.tree.body, name)
        self._loaded[file] = ModuleValue(name, scope.names, open=True, of_workspace=True)
        return self._loaded[file]


def _source(file: Path) -> Source | None:
    """A workspace file, parsed; None if it cannot be."""
    try:
        status = file.stat()
        state = str(file), status.st_mtime_ns, status.st_size
        if time.time_ns() - status.st_mtime_ns < _CLOCK_TICK_NS:  # another write may leave the same state
            return _parsed_file.__wrapped__(*state)
        return _parsed_file(*state)
    except (OSError, SyntaxError, ValueError, LookupError, RecursionError, MemoryError):
        return None


@functools.lru_cache(maxsize=64)
def _parsed_file(path: str, modified: int, size: int) -> Source:
    """Parsed once per state on disk: an editor asks at every keystroke, and other files rarely change."""
    if size > _MAX_SOURCE:
        raise ValueError(f"{path} is too large to be read")
    with tokenize.open(path) as file:  # in the encoding it declares
        source = Source(path, file.read())
    _ = source.tree
    return source


def _host_tensor(factory: TensorFactory, values: list[Any], named: dict[str, Any]) -> HostTensor:
    dtype = dtype_name(named.get("dtype"))
    shape: Any = named.get("size", values)
    if factory.name in ("full", "randint"):
        shape = next((v for v in values if isinstance(v, tuple | list)), None)
    if factory.name in ("arange", "tensor") or shape is None:
        return HostTensor(None, dtype)
    if len(shape) == 1 and isinstance(shape[0], tuple | list):
        shape = shape[0]
    known = all(isinstance(d, int) for d in shape)
    return HostTensor(tuple(shape) if known else None, dtype)


def run_module(
    environment: StaticEnvironment,
    source: Source,
    body: list[ast.stmt],
    name: str,
    rebindings: Rebindings | None = None,
    problems: list[Problem] | None = None,
) -> Scope:
    """Interpret the top level of a module; what cannot be interpreted leaves its names Unknown.

    rebindings: notes the values of names that are bound more than once.
    problems: takes misspelt names of the language, with which the module cannot be imported.
    """
    scope = Scope(environment.builtins, owner=f"module {name}")
    scope.names["__name__"] = name
    scope.names["__file__"] = source.path
    scope.unlisted = names_made_elsewhere(source)
    run = new_run(environment, source, scope, MODULE_LIMITS)
    for statement in body:
        if isinstance(statement, ast.Expr) and not _changes_a_container(statement.value):
            continue  # binds nothing; host code that runs kernels
        run.steps = 0
        try:
            run.exec([statement])
        except (StopInterpreting, RecursionError):
            for bound in _bound_names(statement):
                what = f"`{bound}` takes more than {MODULE_LIMITS.steps} steps to compute"
                scope.names[bound] = TooLong(what)
        if rebindings is not None:
            rebindings.note(source, statement, scope.names)
        if problems is not None:
            problems += _misspelt(run, statement)
            run.problems.clear()
    if run.open_scopes:
        scope.unlisted = frozenset({*scope.unlisted, "*"})
    return scope


def _misspelt(run: Run, statement: ast.stmt) -> Iterator[Problem]:
    """`@T.marco`, `BLOCK = T.cieldiv(128, 3)`: in decorators and assignments, which surely run."""
    if isinstance(statement, ast.FunctionDef):
        lines = [n for d in statement.decorator_list for n in (d.lineno, d.end_lineno or d.lineno)]
    elif isinstance(statement, ast.Assign | ast.AnnAssign):
        lines = [statement.lineno, statement.end_lineno or statement.lineno]
    else:
        return
    for problem in run.problems:
        here = problem.span.path == run.source.path and lines and lines[0] <= problem.span.line <= lines[-1]
        if here and problem.rule == UNKNOWN_LANGUAGE_NAME.name:
            yield problem


def is_main_guard(test: ast.expr) -> bool:
    """`if __name__ == ...`"""
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"


def _changes_a_container(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.attr in ("append", "extend", "update", "insert", "add", "setdefault", "add_argument")
    )


def _bound_names(statement: ast.stmt) -> list[str]:
    return [n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]


def _may_open(lines: Sequence[str]) -> bool:
    """Whether a line may write to the module's namespace. Words are looked for first: an expression over the
    whole text takes milliseconds at each keystroke.
    """
    likely = (line for line in lines if "global" in line or "exec" in line or "get_ipython" in line)
    return any(_MAY_OPEN.search(line) for line in likely)


def names_made_elsewhere(source: Source) -> frozenset[str]:
    """Names that functions declare global or that only a program has; `*` where the module writes to its
    namespace by other means.
    """
    found: set[str] = set()
    for statement in source.tree.body:
        if isinstance(statement, ast.If) and is_main_guard(statement.test):
            found.update(assigned_names(source, statement.body))  # there when the file is run as a program
    if not _may_open(source.lines):
        return frozenset(found)
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Global):
            found.update(node.names)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _OPENING:
            found.add("*")
    return frozenset(found)
