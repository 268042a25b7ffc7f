"""One mutant measured: what is true of it, what `check` says of it; and the work spread over processes."""

from __future__ import annotations

import functools
import hashlib
import json
import multiprocessing
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.mutation.corpus import ROOT, Case
from benchmarks.mutation.isolate import Died, isolated
from benchmarks.mutation.mutators import Mutant

TARGET = "cuda:sm_90"


# Rules that refuse what the language does not allow although this compiler's lowering happens to accept it:
# such a mutant cannot be lowered for an author, so it is wrong; it is counted apart. Release 0.1.15 refuses
# all of this too, but for products by a part of a warp, which it lowers to instructions that PTX leaves
# undefined (mma.sync is executed by all threads of a warp); an unbound T.const was not tried there.
BY_LANGUAGE: Mapping[str, str] = {
    "copy-shape": "the two sides of a copy name different extents: one of them is not what is copied",
    "gemm-shape": "the operands of a product agree in M, N and K",
    "reduce-shape": "the result of a reduction has the source's shape without the reduced dimension",
    "reduce-scope": "a reduction takes shared tiles and fragments, or private arrays alone",
    "local-parallel-index": "a private array must not be indexed by a variable of T.Parallel",
    "thread-count": "products are made by whole warps",
    "const-unbound": "a T.const must be an entry of the shape of an argument, else no call binds it",
    "nested-tile-op": "only single elements are worked on inside T.Parallel",
    "gemm-dtype": "both factors of a product have one dtype",
}
DIAGONAL = "indexes two dimensions of the fragment"  # release 0.1.15 cannot divide the loop among the threads


@dataclass(frozen=True)
class Seen:
    """A problem as the verdict needs it: where it stands, what else it points at."""

    rule: str
    severity: str
    message: str
    first: int
    last: int
    related: tuple[int, ...]


@dataclass(frozen=True)
class Result:
    """A mutant with its truth (wrong, right, unjudged) and the errors and warnings of `check`."""

    mutant: Mutant
    verdict: str
    why: str
    seen: tuple[Seen, ...]
    failed: str = ""  # what went wrong with `check` itself
    by_language: bool = False  # wrong only because a rule of BY_LANGUAGE refuses it

    @property
    def grave(self) -> list[Seen]:
        return [s for s in self.seen if s.severity in ("error", "warning")]

    @property
    def error(self) -> bool:
        return any(s.severity == "error" for s in self.seen)

    @property
    def found_in_place(self) -> list[Seen]:
        """Errors and warnings on the change, on lines that use what stands there, or pointing at it."""
        return [s for s in self.grave if _about(s, self.mutant)]


def _about(seen: Seen, mutant: Mutant) -> bool:
    places = [*range(seen.first, seen.last + 1), *seen.related]
    if any(mutant.first <= line <= mutant.last for line in places):
        return True
    lines = mutant.text.split("\n")
    words = {w for line in places if line <= len(lines) for w in _words(lines[line - 1])}
    return bool(words & mutant.names)


def _words(line: str) -> set[str]:
    return set("".join(c if c.isalnum() or c == "_" else " " for c in line).split())


def measure(mutants: Sequence[Mutant], jobs: int, cache: Path | None = None) -> Iterator[Result]:
    """Results in the order of `mutants`. `cache`: a folder for truths, which no change of a rule alters."""
    work = [(m, cache) for m in mutants]
    if jobs <= 1:
        _start()
        yield from map(_measure, work)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_start) as pool:
        yield from pool.map(_measure, work)  # one by one: some take a hundred times as long as others


def _start() -> None:
    """Import everything once, also what is imported late: children are forked from here, one per question."""
    from benchmarks.mutation import emulated, meaning, truth
    from tilelang.targets.cpu import toolchain

    _ = emulated, meaning, toolchain
    path = ROOT / "examples" / "quickstart.py"
    text = path.read_text(encoding="utf-8")
    check(str(path), text)
    program = truth.program_of(text, "matmul_relu", {"M": "128", "N": "128", "K": "32"})
    truth.lowered_for(program, truth.CPU, poison=True)


def _measure(work: tuple[Mutant, Path | None]) -> Result:
    mutant, cache = work
    try:
        seen, failed = tuple(isolated(check, mutant.case.path, mutant.text)), ""
    except (Died, RuntimeError) as error:
        seen, failed = (), str(error)
    found = _truth(mutant, cache)
    result = Result(mutant, found["verdict"], found["why"], seen, failed)
    if result.verdict != "wrong" and result.error:
        for opinion in (_emulated, _by_meaning):
            found = opinion(mutant, cache)
            if found["verdict"] == "wrong":
                return Result(mutant, "wrong", found["why"], seen, failed)
        refused = [why for s in seen if s.severity == "error" and (why := _by_language(s))]
        if refused:  # one is enough: no call compiles it
            return Result(mutant, "wrong", refused[0], seen, failed, by_language=True)
    return result


def _by_language(seen: Seen) -> str:
    """Why no call compiles a mutant with this error, empty where the error says no such thing."""
    if seen.rule == "fragment-cross-thread" and DIAGONAL in seen.message:
        return "one variable of T.Parallel must not index two dimensions of a fragment"
    return BY_LANGUAGE.get(seen.rule, "")


def check(path: str, text: str) -> list[Seen]:
    """What `tilelang check` reports of a file's text."""
    from tilelang.analysis.check import check_source
    from tilelang.jit.details import detailed_report

    problems = check_source(path, text, TARGET, detailed_report).all_problems()
    return [
        Seen(
            p.rule,
            p.severity.value,
            p.message,
            p.span.line,
            p.span.end_line,
            tuple(sorted({line for r in p.related for line in (r.span.line, r.span.end_line)})),
        )
        for p in problems
    ]


def _truth(mutant: Mutant, cache: Path | None) -> Mapping[str, str]:
    from benchmarks.mutation import truth

    def find() -> Mapping[str, str]:
        case = mutant.case
        try:
            found = isolated(truth.judge, mutant.text, case.kernel, case.runs, references(case), case.text)
        except (Died, RuntimeError) as error:
            return {"verdict": "wrong", "why": f"running it: {error}"}
        return {"verdict": found.verdict, "why": found.why}

    return _kept(cache, "truth", mutant, find)


def _emulated(mutant: Mutant, cache: Path | None) -> Mapping[str, str]:
    """For a mutant with an error that runs well on the CPU: its GPU code, emulated thread by thread."""
    from benchmarks.mutation import emulated

    return _opinion(emulated.judge, "emulated", mutant, cache)


def _by_meaning(mutant: Mutant, cache: Path | None) -> Mapping[str, str]:
    """For one that runs well there too: whether its program does what the language forbids."""
    from benchmarks.mutation import meaning

    return _opinion(meaning.judge, "meaning", mutant, cache)


def _opinion(judge: Any, what: str, mutant: Mutant, cache: Path | None) -> Mapping[str, str]:
    def find() -> Mapping[str, str]:
        case = mutant.case
        try:
            found = isolated(
                judge, mutant.text, case.kernel, case.runs[0], references(case)[0], seconds=180.0
            )
        except (Died, RuntimeError) as error:
            return {"verdict": "unjudged", "why": f"{what}: {error}"}
        return {"verdict": found.verdict, "why": found.why}

    return _kept(cache, what, mutant, find)


def _kept(cache: Path | None, what: str, mutant: Mutant, find: Any) -> Mapping[str, str]:
    if cache is None:
        return find()
    key = hashlib.sha256(f"{mutant.case.kernel}\0{mutant.case.runs}\0{mutant.text}".encode()).hexdigest()[:24]
    file = cache / what / f"{key}.json"
    if file.exists():
        return json.loads(file.read_text())
    found = find()
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(found))
    draft.replace(file)
    return found


@functools.cache
def _references(
    name: str, text: str, kernel: str, runs: tuple[tuple[tuple[str, str], ...], ...]
) -> list[Any]:
    from benchmarks.mutation import truth

    return [isolated(truth.reference, text, kernel, dict(run), seconds=60.0) for run in runs]


def references(case: Case) -> list[Any]:
    """The runs of the original, made once per process."""
    return _references(case.name, case.text, case.kernel, tuple(tuple(r.items()) for r in case.runs))
