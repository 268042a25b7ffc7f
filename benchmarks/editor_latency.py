"""How fast the language server answers while somebody types: percentiles over 1,000 lines with ten kernels.

Starts the real server over stdio and replays typing into it, one keystroke at a time, most of them leaving
the text half-typed. Measured from sending a message to having read the answer. A server of bare pygls is
started in the same run: what `initialize` cannot be faster than, and the measure of the machine. The budgets
are for one where it takes 350 ms; where it takes longer they are stretched by the same factor, and both are
printed. Exits with 1 if a stretched budget is missed; `--report-only` only prints.

    python benchmarks/editor_latency.py [--report-only] [--starts 5] [--rounds 2]
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Queue
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SERVER = (sys.executable, "-m", "tilelang_lsp.server")
BARE_PYGLS = (
    sys.executable,
    "-c",
    "from pygls.lsp.server import LanguageServer; LanguageServer('bare', '1').start_io()",
)

# Milliseconds at the 95th percentile, on a machine where bare pygls answers `initialize` in IDLE_BARE_PYGLS.
BUDGETS = {
    "initialize": 500.0,
    "keystroke to diagnostics": 50.0,
    "hover": 20.0,
    "preview of an edited kernel": 200.0,
}

IDLE_BARE_PYGLS = 350.0

HEAD = '''\
"""Ten kernels for the benchmark of the language server."""

import tilelang
import tilelang.language as T

'''

GEMM = """
@tilelang.jit
def gemm_{n}(A, B, block_M: int = 128, block_N: int = 128, block_K: int = 32):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), T.float16)
        B_shared = T.alloc_shared((block_K, block_N), T.float16)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[k * block_K, bx * block_N], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        for i, j in T.Parallel(block_M, block_N):
            C_local[i, j] = T.max(C_local[i, j], 0)
{filler}
        T.copy(C_local, C[by * block_M, bx * block_N])
    return C
"""

ELEMENTWISE = """
@tilelang.jit
def elementwise_{n}(A, B, block_M: int = 32, block_N: int = 128):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.float32)
    B: T.Tensor((M, N), T.float32)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        a = T.alloc_fragment((block_M, block_N), T.float32)
        b = T.alloc_fragment((block_M, block_N), T.float32)
        T.copy(A[by * block_M, bx * block_N], a)
        T.copy(B[by * block_M, bx * block_N], b)
        for i, j in T.Parallel(block_M, block_N):
            a[i, j] = a[i, j] * b[i, j] + 1.0
{filler}
        T.copy(a, C[by * block_M, bx * block_N])
    return C
"""

REFERENCE = '''

def ref_{name}(a, b, steps=3):
    """What {name} computes, in plain words: the reference that "run & assert" would compare it with.

    a, b: tensors of the same shape. steps: how often the scale is halved.
    """
    scale = 1.0
    total = a
    for step in range(steps):
        total = total + b * scale
        scale = scale / 2
    return total


def check_{name}(make_input, sizes=((256, 256), (200, 136), (1024, 4096))):
    """Compare {name} with its reference at several sizes."""
    worst = 0.0
    for rows, columns in sizes:
        a, b = make_input(rows, columns), make_input(rows, columns)
        expected = ref_{name}(a, b)
        found = {name}(a, b)
        difference = (found - expected).abs().max().item()
        if difference > 1e-2 * expected.abs().max().item():
            raise AssertionError(f"{name} differs by {{difference}} at {{rows}} x {{columns}}")
        worst = max(worst, difference)
    return worst


def describe_{name}(rows, columns):
    """One line for a table of results."""
    n_bytes = 3 * rows * columns * 2
    unit = "B"
    for larger in ("KiB", "MiB", "GiB"):
        if n_bytes < 1024:
            break
        n_bytes, unit = n_bytes / 1024, larger
    return f"{name:24} {{rows}} x {{columns}} {{n_bytes:.1f}} {{unit}}"

'''


def source() -> str:
    """A file of about 1,000 lines with ten kernels, gemm-like and elementwise in turn."""
    parts = [HEAD]
    loop = "        for i, j in T.Parallel(block_M, block_N):\n"
    for n in range(10):
        if n % 2 == 0:
            template, name = GEMM, f"gemm_{n}"
            step = loop + "            C_local[i, j] = C_local[i, j] * {k}.5 + 1.0"
        else:
            template, name = ELEMENTWISE, f"elementwise_{n}"
            step = loop + "            a[i, j] = a[i, j] * {k}.5 + b[i, j]"
        filler = "\n".join(step.format(k=k) for k in range(16))
        parts += [template.format(n=n, filler=filler), REFERENCE.format(name=name)]
    return "".join(parts)


class Server:
    """A language server under test and a thread that reads what it says."""

    def __init__(self, command: tuple[str, ...]) -> None:
        self.started = time.perf_counter()
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._answers: Queue[tuple[float, dict[str, Any]]] = Queue()
        self._next_id = 0
        threading.Thread(target=self._read, daemon=True).start()

    def notify(self, method: str, params: Any) -> None:
        self._write({"method": method, "params": params})

    def send(self, method: str, params: Any) -> int:
        self._next_id += 1
        self._write({"id": self._next_id, "method": method, "params": params})
        return self._next_id

    def wait(self, request_id: int, timeout_s: float = 120) -> tuple[float, Any]:
        """(when the answer was read, its result). Raises RuntimeError for an error."""
        while True:
            try:
                when, message = self._answers.get(timeout=timeout_s)
            except Empty:
                raise RuntimeError(f"no answer to request {request_id} within {timeout_s} s") from None
            if message.get("id") == request_id and "method" not in message:
                if "error" in message:
                    raise RuntimeError(message["error"]["message"])
                return when, message["result"]

    def ask(self, method: str, params: Any) -> tuple[float, Any]:
        """(milliseconds, result)."""
        start = time.perf_counter()
        when, result = self.wait(self.send(method, params))
        return 1e3 * (when - start), result

    def initialize(self) -> float:
        """Milliseconds from starting the process to its answer."""
        capabilities = {
            "general": {"positionEncodings": ["utf-16"]},
            "textDocument": {"diagnostic": {}, "hover": {"contentFormat": ["markdown"]}},
            "workspace": {"diagnostics": {"refreshSupport": True}},
        }
        params = {"processId": None, "rootUri": None, "capabilities": capabilities}
        when, _ = self.wait(self.send("initialize", params))
        return 1e3 * (when - self.started)

    def end(self) -> None:
        self.ask("shutdown", None)
        self.notify("exit", None)
        self._process.wait(20)

    def _write(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self._process.stdin.flush()

    def _read(self) -> None:
        stream = self._process.stdout
        assert stream is not None
        while True:
            length = 0
            while (line := stream.readline()).strip():
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            if not length:
                return
            message = json.loads(stream.read(length))
            self._answers.put((time.perf_counter(), message))
            if "method" in message and "id" in message:  # a refresh; nobody waits for it
                self._write({"id": message["id"], "result": None})


@dataclass
class Typist:
    """An editor with one open file, whose text it keeps in step with the server's."""

    server: Server
    uri: str
    text: str
    version: int = 1
    pause_s: float = 0.03
    times: list[float] = field(default_factory=list)

    def open(self) -> None:
        item = {"uri": self.uri, "languageId": "python", "version": 1, "text": self.text}
        self.server.notify("textDocument/didOpen", {"textDocument": item})

    def replace(self, start: int, end: int, new: str) -> None:
        self.version += 1
        change = {"range": {"start": self._position(start), "end": self._position(end)}, "text": new}
        self.text = self.text[:start] + new + self.text[end:]
        identifier = {"uri": self.uri, "version": self.version}
        self.server.notify("textDocument/didChange", {"textDocument": identifier, "contentChanges": [change]})

    def keystroke(self, start: int, end: int, new: str) -> list[dict[str, Any]]:
        """Edit, and wait for the diagnostics of the new text."""
        begin = time.perf_counter()
        self.replace(start, end, new)
        problems = self.diagnostics()
        self.times.append(1e3 * (time.perf_counter() - begin))
        time.sleep(self.pause_s)
        return problems

    def type(self, offset: int, text: str) -> int:
        """Type `text` at `offset`, one key after the other; returns the offset behind it."""
        for key in text:
            self.keystroke(offset, offset, key)
            offset += 1
        return offset

    def delete_back(self, offset: int, count: int) -> None:
        for _ in range(count):
            self.keystroke(offset - 1, offset, "")
            offset -= 1

    def diagnostics(self) -> list[dict[str, Any]]:
        _, report = self.server.ask("textDocument/diagnostic", {"textDocument": {"uri": self.uri}})
        return report["items"]

    def hover(self, offset: int) -> tuple[float, Any]:
        params = {"textDocument": {"uri": self.uri}, "position": self._position(offset)}
        return self.server.ask("textDocument/hover", params)

    def _position(self, offset: int) -> dict[str, int]:
        line = self.text.count("\n", 0, offset)
        return {"line": line, "character": offset - (self.text.rfind("\n", 0, offset) + 1)}


def measure_typing(typist: Typist, rounds: int) -> tuple[list[float], list[float], list[float]]:
    """(keystroke to diagnostics, hover, preview of an edited kernel), each in milliseconds."""
    typist.open()
    wait_until_analysed(typist)
    hovers: list[float] = []
    previews: list[float] = []
    for number in range(rounds):
        for kernel in ("gemm_4", "elementwise_5", "gemm_8"):
            type_into(typist, kernel)
            hovers += hover_around(typist, kernel)
            previews.append(edit_and_preview(typist, kernel, number))
    return typist.times, hovers, previews


def wait_until_analysed(typist: Typist) -> None:
    """The first answers come while the analysis process is still starting."""
    offset = typist.text.index("A_shared =")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        problems = typist.diagnostics()
        if typist.hover(offset)[1] is not None:
            errors = [p["message"] for p in problems if p.get("severity") == 1]
            if errors:
                raise RuntimeError(f"the benchmark's file has errors: {errors[:3]}")
            return
        time.sleep(0.05)
    raise RuntimeError("the file was not analysed within 60 s")


def type_into(typist: Typist, kernel: str) -> None:
    """A new tile and a copy, a mistake and its repair, a number changed, a line above everything."""
    body = typist.text.index("T.alloc_", typist.text.index(f"def {kernel}("))
    line_end = typist.text.index("\n", body)
    typed = "\n        tile = T.alloc_shared((64, 64), T.float16)"
    after = typist.type(line_end, typed)
    typist.delete_back(after, len(typed))
    number = typist.text.index("* 7.5", body) + 2
    typist.keystroke(number, number + 1, "8")
    typist.keystroke(number, number + 1, "7")
    typist.keystroke(0, 0, "\n")
    typist.keystroke(0, 1, "")


def hover_around(typist: Typist, kernel: str) -> list[float]:
    start = typist.text.index(f"def {kernel}(")
    times = []
    for name in (f"{kernel}(", "T.Kernel", "T.copy", "T.clear" if "gemm" in kernel else "T.Parallel", "A[by"):
        for _ in range(4):
            elapsed, shown = typist.hover(typist.text.index(name, start))
            if shown is None:
                raise RuntimeError(f"no hover on {name} of {kernel}")
            times.append(elapsed)
    return times


def edit_and_preview(typist: Typist, kernel: str, number: int) -> float:
    """The time from a keystroke in a kernel to its new CUDA."""
    place = typist.text.index("* 9.5", typist.text.index(f"def {kernel}(")) + 2
    begin = time.perf_counter()
    typist.replace(place, place + 1, str(number % 9))
    params = {"textDocument": {"uri": typist.uri}, "kernel": kernel, "target": "cuda"}
    _, result = typist.server.ask("tilelang/generatedSource", params)
    elapsed = 1e3 * (time.perf_counter() - begin)
    if "error" in result:
        raise RuntimeError(f"no preview of {kernel}: {result['error']}")
    typist.replace(place, place + 1, "9")
    typist.diagnostics()
    return elapsed


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]


def report(rows: dict[str, list[float]], slowness: float) -> list[str]:
    """Print the table; returns the names of the rows that miss their budget, stretched by `slowness`."""
    missed = []
    print(f"{'milliseconds':32} {'n':>5} {'p50':>8} {'p95':>8} {'p99':>8} {'budget':>8} {'here':>8}")
    for name, values in rows.items():
        budget = BUDGETS.get(name)
        p95 = percentile(values, 0.95)
        if budget is not None and p95 > budget * slowness:
            missed.append(name)
        shown = f"{budget:8.0f} {budget * slowness:8.0f}" if budget is not None else " " * 17
        mark = "  missed" if name in missed else ""
        print(
            f"{name:32} {len(values):5} {statistics.median(values):8.1f} {p95:8.1f} "
            f"{percentile(values, 0.99):8.1f} {shown}{mark}"
        )
    return missed


def starts(command: tuple[str, ...], count: int) -> list[float]:
    times = []
    for _ in range(count):
        server = Server(command)
        times.append(server.initialize())
        server.end()
    return times


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--report-only", action="store_true", help="print, and exit with 0 whatever it is")
    parser.add_argument("--starts", type=int, default=5, help="servers started for `initialize` (5)")
    parser.add_argument("--rounds", type=int, default=2, help="rounds of typing in three kernels (2)")
    options = parser.parse_args()
    for command in (BARE_PYGLS, SERVER):
        starts(command, 1)  # what follows finds the files in the page cache
    rows: dict[str, list[float]] = {
        "initialize, bare pygls": starts(BARE_PYGLS, options.starts),
        "initialize": starts(SERVER, options.starts),
    }
    text = source()
    print(f"a file of {text.count(chr(10))} lines, {text.count('@tilelang.jit')} kernels")
    server = Server(SERVER)
    server.initialize()
    server.notify("initialized", {})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernels.py"
        path.write_text(text, encoding="utf-8")
        typed, hovers, previews = measure_typing(Typist(server, path.as_uri(), text), options.rounds)
    server.end()
    rows |= {"keystroke to diagnostics": typed, "hover": hovers, "preview of an edited kernel": previews}
    bare = statistics.median(rows["initialize, bare pygls"])
    slowness = max(1.0, bare / IDLE_BARE_PYGLS)
    missed = report(rows, slowness)
    print(
        f"bare pygls takes {bare:.0f} ms here, budgets are for {IDLE_BARE_PYGLS:.0f} ms: times {slowness:.2f}"
    )
    if missed:
        print(f"over budget: {', '.join(missed)}")
    return 1 if missed and not options.report_only else 0


if __name__ == "__main__":
    raise SystemExit(main())
