"""A small, fixed slice of the mutation benchmark, and the parts it is made of."""

from __future__ import annotations

import os
import signal
import time

import pytest

from benchmarks.mutation.__main__ import sample
from benchmarks.mutation.corpus import cases
from benchmarks.mutation.isolate import Died, isolated
from benchmarks.mutation.measure import Result, check, measure
from benchmarks.mutation.mutators import MUTATORS, mutants, parses


@pytest.fixture(scope="module")
def results() -> list[Result]:
    """A dozen mutants of one product and one kernel over rows, of different kinds."""
    kinds = [
        "dimension",
        "scope",
        "transpose",
        "missing-clear",
        "missing-copy",
        "reduce",
        "threads",
        "stages",
    ]
    chosen = sample(["cli/kernels/matmul", "rows/extremes"], kinds, 12, seed=1)
    return list(measure(chosen, jobs=1))


def test_no_right_mutant_carries_an_error(results):
    assert [r.mutant.name for r in results if r.verdict == "right" and r.error] == []


def test_the_slice_holds_wrong_and_right_mutants_and_the_wrong_ones_are_caught(results):
    wrong = [r for r in results if r.verdict == "wrong"]
    assert len(wrong) >= 5
    assert any(r.verdict == "right" for r in results)
    missed = [f"{r.mutant.name}: {r.why}" for r in wrong if not r.found_in_place]
    assert len(missed) <= len(wrong) // 10, missed


def test_mutants_are_the_same_for_a_seed_and_differ_from_their_original():
    first, second = (sample(["elements/rotary"], [], 30, seed=3) for _ in range(2))
    assert [m.text for m in first] == [m.text for m in second]
    assert all(m.text != m.case.text and parses(m) for m in first)
    assert {m.text for m in first} != {m.text for m in sample(["elements/rotary"], [], 30, seed=4)}


def test_every_kind_has_mutants():
    own = cases(["kernels/"])
    assert len(own) >= 25
    made = {m.kind for case in own if "attention" in case.name for m in mutants(case)}
    assert made == set(MUTATORS)


@pytest.mark.parametrize("name", ["elements/rotary", "rows/extremes", "products/dynamic_rows"])
def test_an_original_is_right_and_clean(name):
    from benchmarks.mutation import truth

    (case,) = cases([name])
    assert [s for s in check(case.path, case.text) if s.severity in ("error", "warning")] == []
    known = [isolated(truth.reference, case.text, case.kernel, run, seconds=60.0) for run in case.runs]
    assert isolated(truth.judge, case.text, case.kernel, case.runs, known, seconds=60.0).verdict == "right"


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_hangs_or_crashes_is_told():
    with pytest.raises(Died, match="still running"):
        isolated(time.sleep, 60, seconds=0.2)
    with pytest.raises(Died, match="signal"):
        isolated(_die)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        isolated(divmod, 1, 0)
    assert isolated(divmod, 7, 2) == (3, 1)
