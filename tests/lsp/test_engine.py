"""The analysis process and its client: memo, cancellation, death, hanging, and what cannot be started."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.lsp.fake_compiler import FakeCompiler
from tilelang_lsp.engine.answers import file_answer, with_details
from tilelang_lsp.engine.client import AnalysisClient, AnalysisFailed, AnalysisUnavailable
from tilelang_lsp.engine.messages import (
    CheckRequest,
    DetailsAnswer,
    DetailsRequest,
    GenerateRequest,
    decode_body,
    encode_frame,
)
from tilelang_lsp.engine.worker import Worker

WORKER = (sys.executable, str(Path(__file__).with_name("fake_worker.py")))

GOOD = "@jit\ndef good(A):\n    s = T.alloc_shared((4, 4), T.float16)\n"
WRONG = "@jit\ndef wrong(A):\n    T.wrong()\n"


def check_request(text: str, **more) -> CheckRequest:
    return CheckRequest("k.py", text, "cuda:sm_90", **more)


def details_request(text: str, *wanted: str) -> DetailsRequest:
    return DetailsRequest("k.py", text, "cuda:sm_90", {}, wanted)


class Recorder:
    """The pipe to the server: the messages that a worker writes."""

    def __init__(self) -> None:
        self.messages: list[dict] = []

    def write(self, frame: bytes) -> None:
        self.messages.append(decode_body(frame[4:]))

    def flush(self) -> None:
        pass

    def of(self, event: str) -> list[dict]:
        return [m for m in self.messages if m["event"] == event]


class TestWorker:
    """The worker itself, in this process, one turn at a time."""

    def make(self) -> tuple[Worker, Recorder]:
        out = Recorder()
        return Worker(FakeCompiler(), out), out

    def run(self, worker: Worker, out: Recorder, request_id: int, text: str, **more) -> dict:
        worker.receive({"method": "check", "id": request_id, **check_request(text, **more).to_json()})
        for _ in range(20):
            worker.turn()
            answers = [m for m in out.of("answer") if m["id"] == request_id]
            if answers:
                return answers[0]["result"]
        raise AssertionError("no answer")

    def test_unchanged_kernels_are_not_analysed_again(self):
        worker, out = self.make()
        self.run(worker, out, 1, GOOD + WRONG)
        self.run(worker, out, 2, GOOD + WRONG.replace("T.wrong()", "T.wrong(1)"))
        assert [m["kernel"] for m in out.of("step") if m["id"] == 2 and m["kernel"]] == ["wrong"]

    def test_a_line_above_moves_and_does_not_recompute(self):
        worker, out = self.make()
        first = self.run(worker, out, 1, WRONG)["kernels"][0]
        second = self.run(worker, out, 2, "\n\n" + WRONG, known=(first["memo_key"],))["kernels"][0]
        assert [m for m in out.of("step") if m["id"] == 2 and m["kernel"]] == []
        assert (second["line"], second["report_line"], second["report"]) == (3, 1, None)

    def test_a_cancelled_check_stops_between_kernels(self):
        worker, out = self.make()
        worker.receive({"method": "check", "id": 1, **check_request(GOOD + WRONG).to_json()})
        worker.turn()
        worker.receive({"method": "cancel", "id": 1})
        worker.receive({"method": "check", "id": 2, **check_request("x = 1\n").to_json()})
        for _ in range(4):
            worker.turn()
            if out.of("answer"):
                break
        assert [m["id"] for m in out.of("cancelled")] == [1]
        assert [m["id"] for m in out.of("answer")] == [2]

    def test_previews_come_before_checks(self):
        worker, out = self.make()
        worker.receive({"method": "check", "id": 1, **check_request(GOOD + WRONG).to_json()})
        generate = GenerateRequest("k.py", GOOD, "good", "cuda")
        worker.receive({"method": "generate", "id": 2, **generate.to_json()})
        while not out.of("answer"):
            worker.turn()
        assert out.of("answer")[0]["id"] == 2

    def test_details_come_last_and_once(self):
        worker, out = self.make()
        text = GOOD + WRONG
        kernels = self.run(worker, out, 1, text)["kernels"]
        keys = [k["memo_key"] for k in kernels]
        worker.receive({"method": "details", "id": 2, **details_request(text, keys[0]).to_json()})
        worker.receive({"method": "check", "id": 3, **check_request(text + "\n").to_json()})
        while len(out.of("answer")) < 3:
            worker.turn()
        assert [m["id"] for m in out.of("answer")] == [1, 3, 2]
        assert [k["qualified_name"] for k in out.of("answer")[2]["result"]["kernels"]] == ["good"]
        worker.receive({"method": "details", "id": 4, **details_request("\n" + text, keys[0]).to_json()})
        while len(out.of("answer")) < 4:
            worker.turn()
        (moved,) = out.of("answer")[3]["result"]["kernels"]
        assert (moved["line"], moved["report_line"]) == (2, 1)
        assert [m for m in out.of("step") if m["id"] == 4 and m["kernel"]] == []

    def test_a_check_interrupts_details_between_kernels(self):
        worker, out = self.make()
        text = GOOD + WRONG
        keys = [k["memo_key"] for k in self.run(worker, out, 1, text)["kernels"]]
        worker.receive({"method": "details", "id": 2, **details_request(text, *keys).to_json()})
        for _ in range(3):
            worker.turn()
        worker.receive({"method": "cancel", "id": 2})
        worker.receive({"method": "check", "id": 3, **check_request(text).to_json()})
        while len(out.of("answer")) < 2:
            worker.turn()
        assert [m["id"] for m in out.of("cancelled")] == [2]
        assert [m["id"] for m in out.of("answer")] == [1, 3]

    def test_a_bug_at_one_kernel_leaves_the_others(self):
        worker, out = self.make()
        kernels = self.run(worker, out, 1, "@jit\ndef bad(A):\n    T.boom()\n" + GOOD)["kernels"]
        assert "RuntimeError: boom" in kernels[0]["failure"]
        assert kernels[1]["report"] is not None

    def test_a_bug_in_details_is_logged_once_per_text_of_the_kernel(self, capsys):
        worker, out = self.make()
        text = "@jit\ndef bad(A):\n    T.boom_below()\n" + GOOD
        keys = [k["memo_key"] for k in self.run(worker, out, 1, text)["kernels"]]
        for request_id, shown in ((2, text), (3, "\n" + text)):
            worker.receive({"method": "details", "id": request_id, **details_request(shown, *keys).to_json()})
            while len(out.of("answer")) < request_id:
                worker.turn()
            answer = out.of("answer")[-1]["result"]["kernels"]
            assert [k["qualified_name"] for k in answer] == ["good"]
        logged = capsys.readouterr().err
        assert logged.startswith("no details of bad in k.py:\nTraceback") and logged.count("Traceback") == 1

    def test_half_of_a_surrogate_pair_passes_through_the_pipe(self):
        text = "x = '\ud83d'\n"
        assert decode_body(encode_frame(check_request(text).to_json())[4:])["text"] == text


@pytest.fixture
async def client():
    client = AnalysisClient(WORKER, step_limit_s=1.0, spare_delay_s=0.05)
    yield client
    await client.stop()


def in_time(awaitable):
    return asyncio.wait_for(awaitable, 20)


def broken_kernel(call: str) -> str:
    return f"@jit\ndef bad(A):\n    {call}\n"


class TestClient:
    async def test_check_and_generate(self, client: AnalysisClient):
        answer = await in_time(client.check(check_request(GOOD + WRONG)))
        assert [k.qualified_name for k in answer.kernels] == ["good", "wrong"]
        source = await in_time(client.generate(GenerateRequest("k.py", GOOD, "good", "cuda")))
        assert source.source.text.startswith("void good()")
        refused = await in_time(client.generate(GenerateRequest("k.py", WRONG, "wrong", "cuda")))
        assert refused.source is None and refused.problems[0].message == "this is wrong"

    async def test_a_killed_process_is_replaced_and_the_request_answered(self, client: AnalysisClient):
        await in_time(client.check(check_request(GOOD)))
        first = client.pid
        slow = asyncio.ensure_future(client.check(check_request(broken_kernel("T.slow()"))))
        await asyncio.sleep(0.1)
        os.kill(first, signal.SIGKILL)
        answer = await in_time(slow)
        assert answer.kernels[0].report is not None
        assert client.pid != first

    async def test_killed_while_idle_the_spare_takes_over(self, client: AnalysisClient):
        await in_time(client.check(check_request(GOOD)))
        await asyncio.sleep(1.0)  # the spare is warm
        spare = client._spare.pid
        os.kill(client.pid, signal.SIGKILL)
        started = time.monotonic()
        await in_time(client.check(check_request(WRONG)))
        assert client.pid == spare
        assert time.monotonic() - started < 0.5

    async def test_a_kernel_that_crashes_the_process_is_named_and_left_out(self, client: AnalysisClient):
        text = broken_kernel("T.crash()") + GOOD
        answer = await in_time(client.check(check_request(text)))
        assert "ended the analysis process" in answer.kernels[0].failure
        assert answer.kernels[1].report is not None
        again = await in_time(client.check(check_request(text + "\n")))
        assert again.kernels[0].failure and client.pid is not None

    async def test_a_kernel_that_hangs_is_left_out_after_the_limit(self, client: AnalysisClient):
        started = time.monotonic()
        answer = await in_time(client.check(check_request(broken_kernel("T.hang()") + GOOD)))
        assert answer.kernels[0].failure
        assert answer.kernels[1].report is not None
        assert time.monotonic() - started < 6

    async def test_a_preview_that_crashes_fails_with_a_message(self, client: AnalysisClient):
        request = GenerateRequest("k.py", broken_kernel("T.crash()"), "bad", "cuda")
        with pytest.raises(AnalysisFailed, match="ended twice"):
            await in_time(client.generate(request))
        assert (await in_time(client.check(check_request(GOOD)))).kernels

    async def test_cancelling_gives_up(self, client: AnalysisClient):
        await in_time(client.check(check_request(GOOD)))
        task = asyncio.ensure_future(client.check(check_request(broken_kernel("T.slow()") + WRONG)))
        await asyncio.sleep(0.1)
        task.cancel()
        answer = await in_time(client.check(check_request(GOOD)))
        assert len(answer.kernels) == 1

    async def test_what_cannot_be_started_is_said(self):
        client = AnalysisClient(("/nowhere/python", "-m", "nothing"))
        with pytest.raises(AnalysisUnavailable, match="cannot start /nowhere/python"):
            await in_time(client.check(check_request(GOOD)))
        await client.stop()

    async def test_a_process_that_ends_at_once_is_given_up(self):
        client = AnalysisClient((sys.executable, "-c", "raise SystemExit(1)"))
        with pytest.raises(AnalysisUnavailable, match="before it is ready"):
            await in_time(client.check(check_request(GOOD)))
        await client.stop()

    async def test_processes_end_with_the_client(self, client: AnalysisClient):
        await in_time(client.check(check_request(GOOD)))
        pid = client.pid
        await client.stop()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


class TestDetails:
    """What the spare finds out while nobody waits for it."""

    async def keys(self, client: AnalysisClient, text: str) -> tuple[str, ...]:
        return tuple(k.memo_key for k in (await in_time(client.check(check_request(text)))).kernels)

    async def test_they_come_from_the_spare(self, client: AnalysisClient):
        text = GOOD + "    T.copy(A, s)\n"
        (key,) = await self.keys(client, text)
        answer = await in_time(client.details(details_request(text, key)))
        assert answer.kernels[0].report.facts.ops[0].instruction == "fake.async 16 bytes"
        slow = broken_kernel("T.hang_below()")
        (slow_key,) = await self.keys(client, slow)
        details = asyncio.ensure_future(client.details(details_request(slow, slow_key)))
        await asyncio.sleep(0.1)
        started = time.monotonic()
        await in_time(client.check(check_request(WRONG)))
        assert time.monotonic() - started < 0.5 and not details.done()
        details.cancel()

    @pytest.mark.parametrize("call", ["T.crash_below()", "T.hang_below()"])
    async def test_what_ends_the_spare_is_not_tried_again(self, client: AnalysisClient, call: str):
        text = broken_kernel(call) + GOOD
        keys = await self.keys(client, text)
        pid = client.pid
        with pytest.raises(AnalysisFailed, match="at details"):
            await in_time(client.details(details_request(text, *keys)))
        assert client.pid == pid
        answer = await in_time(client.details(details_request(text, *keys)))
        assert [k.qualified_name for k in answer.kernels] == ["good"]

    async def test_the_spare_takes_over_with_details_in_flight(self, client: AnalysisClient):
        text = GOOD + broken_kernel("T.slow()")
        keys = await self.keys(client, text)
        details = asyncio.ensure_future(client.details(details_request(text, *keys)))
        await until(lambda: client._spare is not None and client._pending_at(client._spare))
        os.kill(client.pid, signal.SIGKILL)
        assert len((await in_time(details)).kernels) == 2
        assert (await in_time(client.check(check_request(GOOD)))).kernels

    async def test_waiting_ends_with_the_client(self):
        client = AnalysisClient(WORKER, spare_delay_s=60)
        (key,) = await self.keys(client, GOOD)
        details = asyncio.ensure_future(client.details(details_request(GOOD, key)))
        await asyncio.sleep(0.05)
        await client.stop()
        with pytest.raises(AnalysisUnavailable):
            await in_time(details)

    async def test_they_replace_the_report_and_are_kept(self, client: AnalysisClient):
        text = "# above\n" + GOOD + "    T.copy(A, s)\n" + broken_kernel("T.boom_below()")
        first = file_answer(await in_time(client.check(check_request(text))), "k.py", 0, None)
        wanted = tuple(first.reports())
        details = await in_time(client.details(details_request(text, *wanted)))
        second = with_details(first, DetailsAnswer.from_json(details.to_json()), wanted)
        assert [k.may_have_details() for k in first.kernels] == [True, True]
        assert [k.may_have_details() for k in second.kernels] == [False, False]
        assert second.kernels[0].facts().ops[0].instruction == "fake.async 16 bytes"
        assert second.kernels[1].report is first.kernels[1].report
        moved = await in_time(client.check(check_request("\n" + text, known=tuple(second.reports()))))
        third = file_answer(moved, "k.py", 1, second)
        assert third.kernels[0].facts() == second.kernels[0].facts().shifted(1)
        assert not third.kernels[0].may_have_details()


async def until(holds) -> None:
    """Wait until something is true, for 20 seconds at most."""
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


class TestAnswers:
    """How an answer becomes the next one."""

    async def test_broken_text_keeps_the_kernels_of_before(self, client: AnalysisClient):
        good = await in_time(client.check(check_request(WRONG)))
        first = file_answer(good, "k.py", 0, None)
        broken = await in_time(client.check(check_request(WRONG + "x = (\n")))
        second = file_answer(broken, "k.py", 1, first)
        assert second.broken
        assert [p.message for k in second.kernels for p in k.problems()] == ["this is wrong"]
        assert [p.rule for p in second.problems] == ["syntax-error"]

    async def test_kernels_below_an_edit_keep_their_report(self, client: AnalysisClient):
        first = file_answer(await in_time(client.check(check_request(GOOD + WRONG))), "k.py", 0, None)
        known = tuple(first.reports())
        answer = await in_time(client.check(check_request("# new\n" + GOOD + WRONG, known=known)))
        second = file_answer(answer, "k.py", 1, first)
        assert second.kernels[1].report is first.kernels[1].report
        assert second.kernels[1].problems()[0].span.line == first.kernels[1].problems()[0].span.line + 1
        assert second.kernels[0].facts() == first.kernels[0].facts().shifted(1)
