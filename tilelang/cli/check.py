"""`tilelang check PATH...`: report the mistakes in the kernels of files and folders; nothing of theirs is
executed.

Settings come from `[tool.tilelang]` of the nearest pyproject.toml; --target, --select and --ignore take the
place of theirs. With - for PATH the file is read from standard input. Exit status 1 if an error is left,
with --diff also if there is anything to fix.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tilelang.cli.check_file import Checked, CheckTask, check_file, lost
from tilelang.cli.config import config_for
from tilelang.cli.notebook_fixes import fixed_notebook
from tilelang.cli.notebook_places import NotebookPlaces
from tilelang.cli.notebooks import Notebook, cell_text, is_notebook, read_notebook
from tilelang.cli.sources import (
    Source,
    UnreadableError,
    decoded,
    find_python_files,
    normalised,
    read_file,
    read_source,
)
from tilelang.cli.usage import FAILED, FINE, UsageError, rules_argument, target_argument
from tilelang.cli.workers import Lost, Workers, available_processors
from tilelang.diagnostics.json import to_json
from tilelang.diagnostics.once import once
from tilelang.diagnostics.problem import Problem, Severity
from tilelang.diagnostics.registry import RULES
from tilelang.diagnostics.render import summary
from tilelang.diagnostics.rules.files import UNREADABLE_FILE
from tilelang.diagnostics.sarif import to_sarif
from tilelang.diagnostics.span import Span, cell_of
from tilelang.facts.project import DEFAULT_TARGET, Project, Projects
from tilelang.version import PACKAGE_VERSION

_STDIN = Path("-")
_FILE_LIMIT_S = 120.0  # the frontend has a step limit; what takes longer hangs in a solver
_FILES_PER_PROCESS = 4  # so many take about as long as starting one more process


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths",
        nargs="+",
        type=Path,
        metavar="PATH",
        help="a Python file, a notebook, a folder of them, or - for standard input",
    )
    parser.add_argument(
        "--target",
        type=target_argument,
        help="what to check for: cuda, cuda:sm_80, hip:gfx942, metal, cpu (default: the project's, else "
        "cuda:sm_90)",
    )
    parser.add_argument(
        "--select",
        type=rules_argument,
        metavar="RULES",
        help="report only these rules or families, separated by commas, as in shape,gemm-scope, whatever "
        "the project selects",
    )
    parser.add_argument(
        "--ignore",
        type=rules_argument,
        metavar="RULES",
        help="do not report these rules or families, whatever the project ignores",
    )
    parser.add_argument("--format", choices=("text", "json", "sarif"), default="text", help="default: text")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--fix", action="store_true", help="make the fixes that leave no choice")
    what.add_argument("--diff", action="store_true", help="show what --fix would change, and change nothing")
    what.add_argument(
        "--annotate",
        action="store_true",
        help="print the files with shapes, layouts, instructions and problems as comments",
    )
    parser.add_argument(
        "--stdin-filename",
        type=Path,
        default=Path("<stdin>"),
        metavar="FILE",
        help="the name of what comes from standard input; its folder decides about pyproject.toml",
    )
    parser.add_argument(
        "--jobs", type=int, metavar="N", help="processes to check with; 1 is this one (default: processors)"
    )


def execute(options: argparse.Namespace) -> int:
    missing = [p for p in options.paths if p != _STDIN and not _exists(p)]
    files = find_python_files([p for p in options.paths if p not in missing])
    checked = _check_all(options, [_read(options, file) for file in files])
    if not checked and not missing:
        print(f"no Python files or notebooks in {', '.join(map(str, options.paths))}", file=sys.stderr)
    problems = [p for c in checked for p in c.problems]
    if checked or options.format != "text":  # a machine always gets a document
        _show(options, checked, problems)
    _tell_unknown_kernels(options.paths, checked)
    if missing:
        raise UsageError(f"{', '.join(map(str, missing))}: no such file or folder")
    would_fix = options.diff and any(c.fixed for c in checked)
    return FAILED if would_fix or any(p.severity is Severity.ERROR for p in problems) else FINE


def _tell_unknown_kernels(paths: Sequence[Path], checked: Sequence[Checked]) -> None:
    """Names in `[tool.tilelang.specialisations]` that no kernel of a whole project has, and one is spelt
    like.
    """
    kernels = {name for c in checked for k in c.kernels for name in (k, k.rpartition(".")[2])}
    for folder in paths:
        if not _exists(folder / "pyproject.toml"):
            continue
        for name in config_for(folder / "_.py").specialisations:
            near = difflib.get_close_matches(name, sorted(kernels), n=1, cutoff=0.75)
            if name not in kernels and near:
                where = f"{folder / 'pyproject.toml'}: [tool.tilelang.specialisations.{name}]"
                print(f"{where}: no kernel is called so; did you mean {near[0]}?", file=sys.stderr)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # the name is too long, or its folder may not be entered
        return False


@dataclass(frozen=True)
class _Input:
    """A file to check; `source` None where it is no Python text, which `problem` says."""

    path: Path
    source: Source | None
    problem: Problem | None = None


def _read(options: argparse.Namespace, path: Path) -> _Input:
    try:
        if path == _STDIN:
            name = options.stdin_filename
            return _Input(name, decoded(name, sys.stdin.buffer.read()))
        return _Input(path, read_file(path))
    except UnreadableError as error:
        return _Input(options.stdin_filename if path == _STDIN else path, None, error.problem)


def _check_all(options: argparse.Namespace, inputs: Sequence[_Input]) -> list[Checked]:
    """What is found in each file, in their order; fixes are written."""
    projects = Projects()
    found: dict[int, Checked] = {}
    tasks: dict[int, CheckTask] = {}
    notebooks: dict[int, Notebook] = {}
    for index, one in enumerate(inputs):
        project = config_for(one.path, projects)
        if one.source is None:
            found[index] = Checked(str(one.path), [one.problem] if one.problem else [], "")
        elif is_notebook(one.path):
            _put_notebook(options, index, one, project, found, tasks, notebooks)
        elif "tilelang" not in one.source.text:
            # No kernel without an import of the language; most files of a folder end here.
            found[index] = Checked(str(one.path), [], one.source.text)
        else:
            tasks[index] = CheckTask(
                str(one.path),
                one.source.text,
                options.target or project.target or DEFAULT_TARGET,
                replace(project, rules=project.rules.over(options.select, options.ignore)),
                fix=options.fix or options.diff,
                annotate=options.annotate,
            )
    found.update(zip(tasks, _check_side_by_side(list(tasks.values()), options.jobs), strict=True))
    for index, notebook in notebooks.items():
        source = inputs[index].source
        assert source is not None
        found[index] = _in_cells(tasks[index], source.text, notebook, found[index])
    if options.fix:
        for index, checked in found.items():
            source = inputs[index].source
            if source is not None and checked.text != source.text and index in tasks:
                _write(options, inputs[index].path, replace(source, text=checked.text))
    if options.diff:
        for index, checked in sorted(found.items()):
            source = inputs[index].source
            _print_diff(checked, source.text if source is not None else "")
    named = _Names([str(one.path) for one in inputs])
    checked = [found[index] for index in range(len(inputs))]
    problems = once([p.renamed(lambda path, c=c: named(path, c.path)) for p in c.problems] for c in checked)
    return [replace(c, problems=kept) for c, kept in zip(checked, problems, strict=True)]


class _Names:
    """One name for each file: as it was given, and for one found by an import as for the file that led there,
    relative to the working directory or absolute.
    """

    def __init__(self, given: Sequence[str]) -> None:
        self._given = {os.path.realpath(path): path for path in given}

    def __call__(self, path: str, seen_from: str) -> str:
        if not os.path.isabs(path) or cell_of(path)[1] is not None:
            return path
        real = os.path.realpath(path)
        if real in self._given:
            return self._given[real]
        try:
            return path if os.path.isabs(seen_from) else os.path.relpath(real)
        except ValueError:  # on another drive
            return path


def _put_notebook(
    options: argparse.Namespace,
    index: int,
    one: _Input,
    project: Project,
    found: dict[int, Checked],
    tasks: dict[int, CheckTask],
    notebooks: dict[int, Notebook],
) -> None:
    """A notebook among what is to be checked; nothing is annotated in one."""
    assert one.source is not None
    path = str(one.path)
    try:
        notebook = read_notebook(path, one.source.text)
    except (ValueError, RecursionError) as error:
        what = f"{path} is no notebook: {error}"
        found[index] = Checked(path, [UNREADABLE_FILE.at(Span(path, 1, 1, 1, 2), what=what)], "")
        return
    if not any("tilelang" in cell.text for cell in notebook.cells):
        found[index] = Checked(path, [], "")
        return
    notebooks[index] = notebook
    rules = project.rules.over(options.select, options.ignore)
    target = options.target or project.target or DEFAULT_TARGET
    fix = options.fix or options.diff
    tasks[index] = CheckTask(path, notebook.text, target, replace(project, rules=rules), fix=fix)


def _in_cells(task: CheckTask, source: str, notebook: Notebook, checked: Checked) -> Checked:
    """What was found and fixed in the joined text, in cells; `text` is the notebook's JSON."""
    text = source
    if checked.text != notebook.text:
        fixed = fixed_notebook(source, notebook, checked.text)
        again = read_notebook(notebook.path, fixed) if fixed is not None else None
        if fixed is not None and again is not None and again.text == checked.text:
            text, notebook = fixed, again
        else:  # it is told as it stands
            checked = check_file(replace(task, fix=False))
    both = [*filter(task.project.rules.prints, notebook.problems), *checked.problems]
    return replace(checked, problems=notebook.in_cells(both), text=text)


def _check_side_by_side(tasks: list[CheckTask], jobs: int | None) -> list[Checked]:
    n_processes = min(jobs or available_processors(), -(-len(tasks) // _FILES_PER_PROCESS))
    if n_processes < 2:
        return [check_file(task) for task in tasks]
    results = Workers(check_file, n_processes, _FILE_LIMIT_S).map(tasks)
    return [lost(task, r.why) if isinstance(r, Lost) else r for task, r in zip(tasks, results, strict=True)]


def _write(options: argparse.Namespace, path: Path, source: Source) -> None:
    if path == options.stdin_filename and _STDIN in options.paths:
        sys.stdout.write(source.text)
        return
    try:
        path.write_bytes(source.encoded())
    except (OSError, UnicodeEncodeError) as error:
        raise UsageError(f"{path} cannot be written: {error}", FAILED) from None


def _print_diff(checked: Checked, before: str) -> None:
    old, new = before.splitlines(keepends=True), checked.text.splitlines(keepends=True)
    for line in difflib.unified_diff(old, new, checked.path, checked.path):
        print(line, end="" if line.endswith("\n") else "\n\\ No newline at end of file\n")


def _show(options: argparse.Namespace, checked: list[Checked], problems: list[Problem]) -> None:
    if options.format == "json":
        _print_json(to_json(problems))
        return
    if options.format == "sarif":
        _print_json(to_sarif(problems, RULES, PACKAGE_VERSION, NotebookPlaces()))
        return
    if options.annotate:
        shown = [(one.path, one.annotated) for one in checked if one.annotated is not None]
        for path, text in shown:
            if len(shown) > 1:
                print(f"# --- {path}")
            print(text, end="" if text.endswith("\n") else "\n")
        return
    from tilelang.diagnostics.render_terminal import print_problems

    # What was asked for on standard output must not be mixed with the report.
    stream = sys.stderr if options.diff or (options.fix and _STDIN in options.paths) else sys.stdout
    print_problems(problems, _Lines({c.path: c.text for c in checked if c.problems}), stream)
    fixed = sum((c.fixed for c in checked), Counter[str]())
    if fixed:
        what = ", ".join(f"{rule} ({n})" if n > 1 else rule for rule, n in sorted(fixed.items()))
        print(f"{'would fix' if options.diff else 'fixed'}: {what}", file=stream)
    print(summary(problems, len(checked)), file=stream)


def _print_json(text: str) -> None:
    """A document for a machine, in ASCII where standard output or JSON has no form for a character of it."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(json.loads(text), indent=2)
    print(text)


class _Lines:
    """The lines of files for excerpts: those checked as they are now, others (of helpers) from disk."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._lines: dict[str, list[str] | None] = {}

    def __call__(self, path: str) -> list[str] | None:
        if path not in self._lines:
            self._lines[path] = self._read(path)
        return self._lines[path]

    def _read(self, path: str) -> list[str] | None:
        file, cell = cell_of(path)
        if cell is not None:
            return cell_text(file, cell)
        text = self._texts.get(path)
        if text is not None:
            return normalised(text).split("\n")
        try:
            return read_source(Path(path)).split("\n")
        except UnreadableError:
            return None
