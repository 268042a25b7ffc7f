"""The analysis process: reads requests from stdin, runs the compiler, answers on stdout.

It holds nothing that cannot be lost: the server may kill it at any time and starts another. It never imports
or runs anything of the user's; the compiler's static frontend reads source only.
"""

from __future__ import annotations

import gc
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, BinaryIO

from tilelang.diagnostics.error import KernelError
from tilelang.diagnostics.problem import Severity
from tilelang.diagnostics.suppress import not_silenced
from tilelang_lsp.engine.compiler import Compiler, Kernel, Module, TileLangCompiler
from tilelang_lsp.engine.memo import Memo, MemoReport, memo_key
from tilelang_lsp.engine.messages import (
    CheckAnswer,
    CheckedKernel,
    CheckRequest,
    DetailsAnswer,
    DetailsRequest,
    GenerateAnswer,
    GenerateRequest,
    encode_frame,
    read_frame,
)

Job = Iterator[None]  # advanced step by step; between two steps the worker looks for cancellations

# Which kind of job goes first; of two of a kind, the newer.
_RANK = {"generate": 2, "check": 1, "details": 0, "warm up": 0}


# Collections take as long as a check, so they are done when nobody waits. Seconds without a request, and the
# generation that is collected then; and the allocations after which one does not wait for a pause.
_PAUSES = ((0.01, 1), (1.0, 2))
_THRESHOLDS = (200_000, 20, 20)


class Worker:
    """Serves one connection with one thread of work: previews first, then the newest check, then details."""

    def __init__(self, compiler: Compiler, out: BinaryIO) -> None:
        self._compiler = compiler
        self._out = out
        self._memo = Memo()
        self._broken_details: set[str] = set()  # memo keys of kernels that lowering has a bug at
        self._inbox: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        # Request ids count from 1. The newest check goes first, so this is done when there is nothing else.
        self._jobs: dict[int, tuple[str, Job]] = {0: ("warm up", _warm_up(compiler))}

    def receive(self, message: dict[str, Any]) -> None:
        """Hand in a message; called from the reading thread."""
        self._inbox.put(message)

    def serve_forever(self) -> None:
        while True:
            self.turn()

    def turn(self) -> None:
        """Take in what has arrived (wait if there is nothing to do) and advance one job by one step."""
        self._take_in(wait=not self._jobs)
        if not self._jobs:
            return
        request_id = max(self._jobs, key=lambda i: (_RANK[self._jobs[i][0]], i))
        job = self._jobs[request_id][1]
        try:
            next(job)
        except StopIteration:
            del self._jobs[request_id]
        except Exception as error:  # noqa: BLE001 - a bug in one request must not end the process
            del self._jobs[request_id]
            traceback.print_exc()
            self._send({"event": "failure", "id": request_id, "message": f"{type(error).__name__}: {error}"})

    def _take_in(self, wait: bool) -> None:
        while wait or not self._inbox.empty():
            message = self._next_message() if wait else self._inbox.get()
            wait = False
            method, request_id = message["method"], message["id"]
            if method == "cancel":
                if self._jobs.pop(request_id, None):
                    self._send({"event": "cancelled", "id": request_id})
            elif method == "check":
                self._jobs[request_id] = (method, self._check(request_id, CheckRequest.from_json(message)))
            elif method == "details":
                self._jobs[request_id] = (
                    method,
                    self._details(request_id, DetailsRequest.from_json(message)),
                )
            elif method == "generate":
                self._jobs[request_id] = (
                    method,
                    self._generate(request_id, GenerateRequest.from_json(message)),
                )

    def _next_message(self) -> dict[str, Any]:
        """Wait for a message; if none comes at once, free meanwhile what the last answers left behind."""
        for seconds, generation in _PAUSES:
            with suppress(queue.Empty):
                return self._inbox.get(timeout=seconds)
            gc.collect(generation)
        return self._inbox.get()

    def _send(self, message: dict[str, Any]) -> None:
        self._out.write(encode_frame(message))
        self._out.flush()

    def _check(self, request_id: int, request: CheckRequest) -> Job:
        self._send({"event": "step", "id": request_id, "kernel": None, "memo_key": None})
        module = self._compiler.module(request.path, request.text)
        yield
        answers: list[CheckedKernel] = []
        for kernel in module.kernels:
            choice = _choice_for(kernel, request)
            key = _report_key(kernel, request, choice)
            line = kernel.span.line
            entry = self._memo.report(key, line)
            if entry is not None:
                report = None if key in request.known else entry.report
                answers.append(CheckedKernel(kernel.qualified_name, key, line, entry.line, report))
                continue
            if key in request.skip:
                failure = "its analysis ended the analysis process before; change the kernel to retry"
                answers.append(CheckedKernel(kernel.qualified_name, key, line, line, None, failure))
                continue
            self._send({"event": "step", "id": request_id, "kernel": kernel.qualified_name, "memo_key": key})
            answers.append(self._check_one(module, kernel, request.target, key, choice))
            yield
        problems = tuple(not_silenced(request.path, request.text, module.problems))
        broken = not answers and any(p.severity is Severity.ERROR for p in problems)
        answer = CheckAnswer(tuple(answers), problems, broken)
        self._send({"event": "answer", "id": request_id, "result": answer.to_json()})

    def _check_one(
        self, module: Module, kernel: Kernel, target: str, key: str, choice: dict[str, str]
    ) -> CheckedKernel:
        line = kernel.span.line
        try:
            report = self._compiler.check_kernel(module, kernel, target, choice)
        except Exception as error:  # noqa: BLE001 - one kernel that trips the compiler, the others still answer
            traceback.print_exc()
            return CheckedKernel(
                kernel.qualified_name, key, line, line, None, f"{type(error).__name__}: {error}"
            )
        self._memo.keep_report(key, MemoReport(report, line))
        return CheckedKernel(kernel.qualified_name, key, line, line, report)

    def _details(self, request_id: int, request: DetailsRequest) -> Job:
        self._send({"event": "step", "id": request_id, "kernel": None, "memo_key": None})
        module = self._compiler.module(request.path, request.text)
        yield
        answers: list[CheckedKernel] = []
        for kernel in module.kernels:
            choice = _choice_for(kernel, request)
            key, line = _report_key(kernel, request, choice), kernel.span.line
            if key not in request.wanted or key in self._broken_details:
                continue
            entry = self._memo.report(f"details {key}", line)
            if entry is None:
                name = kernel.qualified_name
                self._send({"event": "step", "id": request_id, "kernel": name, "memo_key": key})
                try:
                    report = yield from self._compiler.detail_steps(module, kernel, request.target, choice)
                except Exception:  # noqa: BLE001 - the report of the check stands as it is
                    # In the log of the server, once per text of the kernel; nobody who types is bothered.
                    print(f"no details of {name} in {request.path}:", file=sys.stderr)
                    traceback.print_exc()
                    self._broken_details.add(key)
                    continue
                entry = MemoReport(report, line)
                self._memo.keep_report(f"details {key}", entry)
                yield
            answers.append(CheckedKernel(kernel.qualified_name, key, line, entry.line, entry.report))
        answer = DetailsAnswer(tuple(answers))
        self._send({"event": "answer", "id": request_id, "result": answer.to_json()})

    def _generate(self, request_id: int, request: GenerateRequest) -> Job:
        self._send({"event": "step", "id": request_id, "kernel": request.kernel, "memo_key": None})
        # The kernel's own key says what was read of other files, which may have changed on disk.
        module = self._compiler.module(request.path, request.text)
        yield
        names = (request.kernel, request.kernel.rpartition(".")[2])
        read = next((k.key for k in module.kernels if k.qualified_name in names or k.name in names), "")
        key = memo_key(
            "source", request.path, request.text, request.kernel, read, request.target, choice=request.choice
        )
        source = self._memo.source(key)
        if source is None:
            try:
                source = self._compiler.generate_source(
                    request.path, request.text, request.kernel, request.target, request.choice
                )
                self._memo.keep_source(key, source)
                answer = GenerateAnswer(source)
            except KernelError as error:
                answer = GenerateAnswer(
                    None, tuple(error.problems), str(error) if not error.problems else None
                )
            except (KeyError, LookupError, ValueError) as error:
                answer = GenerateAnswer(None, (), str(error.args[0]) if error.args else str(error))
        else:
            answer = GenerateAnswer(source)
        self._send({"event": "answer", "id": request_id, "result": answer.to_json()})


def _report_key(kernel: Kernel, request: CheckRequest | DetailsRequest, choice: dict[str, str]) -> str:
    return memo_key("report", request.path, kernel.key, kernel.qualified_name, request.target, choice=choice)


def _choice_for(kernel: Kernel, request: CheckRequest | DetailsRequest) -> dict[str, str]:
    chosen = request.choices.get(kernel.qualified_name, request.choices.get(kernel.name, {}))
    return dict(chosen)


def _warm_up(compiler: Compiler) -> Job:
    yield from compiler.warm_up()
    _keep_for_good()


def _keep_for_good() -> None:
    """Modules and tables live as long as the process; collections need not look at them at each keystroke."""
    gc.collect()
    gc.freeze()


def serve(make_compiler: Any = TileLangCompiler) -> None:
    """Run the analysis process on this process' stdin and stdout. Ends when stdin does."""
    started = time.perf_counter()
    # The pipe is ours alone: what the compiler or native code prints goes to the log instead.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    try:
        compiler = make_compiler()
    except Exception as error:  # noqa: BLE001 - said to the server, which says it to the author
        traceback.print_exc()
        out.write(encode_frame({"event": "unusable", "message": f"{type(error).__name__}: {error}"}))
        out.flush()
        return
    worker = Worker(compiler, out)
    _keep_for_good()
    gc.set_threshold(*_THRESHOLDS)
    seconds = time.perf_counter() - started
    out.write(encode_frame({"event": "ready", "pid": os.getpid(), "seconds": seconds}))
    out.flush()
    threading.Thread(target=_read, args=(worker, sys.stdin.buffer), daemon=True).start()
    worker.serve_forever()


def _read(worker: Worker, stream: BinaryIO) -> None:
    while (message := read_frame(stream)) is not None:
        worker.receive(message)
    os._exit(0)  # the server is gone; whatever is being computed is for nobody


if __name__ == "__main__":
    serve()
