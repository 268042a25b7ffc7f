"""`python -m benchmarks.mutation`: break correct kernels in one place each and see whether `check` notices.

Prints, by kind of mutation and by rule, how many of the really wrong mutants carry an error or warning at
the changed place or its cause, and how many of the right ones carry an error. Exits 1 if one does. What is
really wrong is found without the rules, see `truth.py`.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.mutation import report
from benchmarks.mutation.corpus import cases
from benchmarks.mutation.measure import measure
from benchmarks.mutation.mutators import MUTATORS, Mutant, mutants, parses


def sample(kernels: Sequence[str], kinds: Sequence[str], limit: int | None, seed: int) -> list[Mutant]:
    """At most `limit` mutants, spread evenly over the kinds; the same ones for a seed."""
    every = [m for case in cases(kernels) for m in mutants(case, kinds)]
    order = {id(m): k for k, m in enumerate(every)}
    by_kind = {kind: [m for m in every if m.kind == kind] for kind in MUTATORS}
    left, chosen = len(every) if limit is None else limit, []
    waiting = sorted((group for group in by_kind.values() if group), key=len)
    for k, group in enumerate(waiting):
        random.Random(f"{seed}/{group[0].kind}").shuffle(group)
        valid = filter(parses, group)
        taken = list(itertools.islice(valid, left // (len(waiting) - k) if limit is not None else None))
        chosen += taken
        left -= len(taken)
    return sorted(chosen, key=lambda m: order[id(m)])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutation", description=__doc__)
    parser.add_argument("--kernels", nargs="*", default=(), help="parts of names of kernels (default: all)")
    parser.add_argument("--kinds", nargs="*", default=(), choices=(*MUTATORS, []), help="default: all")
    parser.add_argument("--limit", type=int, help="how many mutants, spread evenly over the kinds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--cache", type=Path, help="a folder that keeps the truths between runs")
    parser.add_argument("--lists", type=Path, help="a folder for the lists of misses, errors, ...")
    options = parser.parse_args(arguments)
    chosen = sample(options.kernels, options.kinds, options.limit, options.seed)
    print(f"{len(chosen)} mutants of {len({m.case.name for m in chosen})} kernels, seed {options.seed}")
    started, results = time.perf_counter(), []
    for result in measure(chosen, options.jobs, options.cache):
        results.append(result)
        if len(results) % 100 == 0:
            print(f"{len(results)} in {time.perf_counter() - started:.0f} s", file=sys.stderr)
    print(report.tables(results))
    lists = {
        "misses": report.misses(results),
        "errors": report.false_errors(results),
        "warnings": report.warned(results),
        "unjudged": report.unjudged(results),
    }
    if options.lists is not None:
        options.lists.mkdir(parents=True, exist_ok=True)
        for name, lines in lists.items():
            (options.lists / f"{name}.txt").write_text("\n".join([*lines, ""]))
    else:
        print("\nMissed:\n" + "\n".join(lists["misses"]))
    print("\nErrors on right mutants:\n" + "\n".join(lists["errors"] or ["none"]))
    return 1 if lists["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
