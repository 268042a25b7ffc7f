"""Bad input over stdio with the real compiler: a clear message in the right place, and the server goes on."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import pytest_lsp
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities

from tests.lsp.sessions import File, accept_registrations, as_dict, content, until

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = (ROOT / "examples" / "quickstart.py").read_text(encoding="utf-8")
HEAD = "import tilelang\nimport tilelang.language as T\n\n"

DOUBLE = """\
import time

import tilelang
import tilelang.language as T


@tilelang.jit
def double(A, block: int = 128):
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
        for i in T.Parallel(block):
            B[bx * block + i] = A[bx * block + i] * 2.0
    return B


def ref_double(A):
    return A * 2
"""


@pytest_lsp.fixture(
    config=ClientServerConfig(
        server_command=[sys.executable, "-m", "tilelang_lsp.server"], server_env={"PYTHONPATH": str(ROOT)}
    ),
    scope="module",
)
async def client(lsp_client: LanguageClient):
    accept_registrations(lsp_client)
    # The profile claims these, the client of pytest-lsp lacks them.
    for method in (types.WORKSPACE_SEMANTIC_TOKENS_REFRESH, types.WORKSPACE_INLAY_HINT_REFRESH):
        lsp_client.feature(method)(lambda *_: None)
    await lsp_client.initialize_session(
        types.InitializeParams(
            capabilities=client_capabilities("neovim"),
            root_uri=ROOT.as_uri(),
            initialization_options={"runTimeout": 90},
        )
    )
    yield
    await lsp_client.shutdown_session()


def children(pid: int) -> list[int]:
    return [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def analysis_processes(client: LanguageClient) -> list[int]:
    """The analysis processes of the server under test: its children that run the worker."""
    found = []
    for pid in children(client._server.pid):
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        found += [pid] if b"tilelang_lsp.engine.worker" in command else []
    return found


class TestAnalysis:
    async def test_opening_a_file_never_runs_it(self, client: LanguageClient, tmp_path: Path):
        mark = tmp_path / "mark"
        helper = tmp_path / "helper.py"
        helper.write_text(f"open({str(mark)!r}, 'w').write('helper')\nBLOCK = 128\n")
        text = (
            f"from helper import BLOCK\nopen({str(mark)!r}, 'w').write('main')\n"
            f"print(__import__('os').system('touch {mark}'))\n" + DOUBLE
        )
        path = tmp_path / "marked.py"
        path.write_text(text)
        (tmp_path / "json.py").write_text(helper.read_text())  # a name of the standard library beside it
        file = await File.of(client, path).analysed()
        await file.diagnostics()
        await file.lenses()
        assert "void" in (await file.generated("double"))["text"]
        assert not mark.exists()
        file.close()

    @pytest.mark.parametrize("module", ["tilelang_lsp", "tilelang_lsp.server"])
    def test_starting_in_a_folder_runs_nothing_in_it(self, tmp_path: Path, module: str):
        """`python -m` puts the current folder first on the path; what lies there must not be imported."""
        mark = tmp_path / "mark"
        for name in ("json", "argparse", "uuid", "hashlib", "pygls", "tilelang", "tree_sitter"):
            (tmp_path / f"{name}.py").write_text(f"open({str(mark)!r}, 'w')\nraise SystemExit('ran')\n")
        command = [sys.executable, "-m", module, "--version"]
        done = subprocess.run(
            command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert not mark.exists()

    @pytest.mark.parametrize(
        "text",
        [
            HEAD + "@tilelang.jit\ndef k(A",
            HEAD + "@tilelang.jit\ndef k(A, B):\n    with T.Kernel(",
            HEAD + "@tilelang.jit\ndef k(A):\n    A: T.Tensor((\n\nx = 1\n",
            HEAD + "@tilelang.jit\n",
            HEAD + "@tilelang.jit\ndef k(A):\n\twith T.Kernel(1) as b:\n        pass\n",
            HEAD + "x = '''never closed\n",
            HEAD + "\x00",
            HEAD + "(" * 3000,
            HEAD + "x = '\ud800'\n",
        ],
    )
    async def test_half_typed_and_odd_texts(self, client: LanguageClient, text: str):
        file = File(client, "file:///half.py", text)
        found = await until(file.diagnostics) if "ud800" not in ascii(text) else await file.diagnostics()
        assert all(d.message for d in found)
        await file.lenses()
        assert await file.hover("tilelang") is None
        file.close()
        good = await File(client, "file:///good.py", QUICKSTART).analysed()
        assert "A_shared" in await good.hover("A_shared =")
        good.close()

    async def test_every_prefix_of_a_kernel(self, client: LanguageClient):
        """What somebody types from top to bottom never fails."""
        kernel = QUICKSTART[: QUICKSTART.index("def ref_program")]
        file = File(client, "file:///typed.py", "")
        for end in range(0, len(kernel), 41):
            file.text, file.version = kernel[:end], file.version + 1
            identifier = types.VersionedTextDocumentIdentifier(version=file.version, uri=file.uri)
            change = types.TextDocumentContentChangeWholeDocument(file.text)
            client.text_document_did_change(types.DidChangeTextDocumentParams(identifier, [change]))
            for problem in await file.diagnostics():
                assert "bug in tilelang-lsp" not in problem.message, file.text
            await file.lenses()
        file.close()

    async def test_a_kernel_of_two_thousand_lines(self, client: LanguageClient):
        line = "            B[bx * block + i] = A[bx * block + i] * 2.0\n"
        text = DOUBLE.replace(line, line * 2050)
        file = await File(client, "file:///long.py", text).analysed()
        assert await file.errors() == []
        started = time.monotonic()
        assert "B: float32[N] global" in await file.hover("B[bx", nth=2000)
        assert time.monotonic() - started < 2
        file.close()

    async def test_a_factory_without_known_arguments(self, client: LanguageClient):
        text = HEAD + (
            "@tilelang.jit(out_idx=[-1])\ndef scale(M, N, block_M, dtype):\n    @T.prim_func\n"
            "    def main(A: T.Tensor((M, N), dtype), B: T.Tensor((M, N), dtype)):\n"
            "        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:\n"
            "            s = T.alloc_shared((block_M, N), dtype)\n"
            "            T.copy(A[bx * block_M, 0], s)\n"
            "            T.copy(s, B[bx * block_M, 0])\n"
            "    return main\n"
        )
        file = await File(client, "file:///factory.py", text).analysed()
        assert await file.errors() == []
        assert "block_M" in await file.hover("s = T.alloc")
        source = await file.generated("scale")
        assert "error" not in source or "block_M" in source["error"] or "dtype" in source["error"], source
        result = await file.run("scale")
        assert not result["passed"] and "block_M" in result["error"]
        file.close()

    async def test_a_killed_analysis_process(self, client: LanguageClient):
        file = await File(client, "file:///killed.py", QUICKSTART).analysed()
        for _ in range(2):
            for pid in analysis_processes(client):
                os.kill(pid, signal.SIGKILL)
            assert "A_shared" in await file.hover("A_shared =")
            file.replace("import tilelang\n", "import tilelang\n\n")
            assert {d.code for d in await file.diagnostics()} <= {"guarded-tail"}  # hints
            assert "void" in (await file.generated("matmul_relu"))["text"]
        file.close()

    async def test_a_file_that_is_not_utf8(self, client: LanguageClient, tmp_path: Path):
        path = tmp_path / "latin.py"
        path.write_bytes(b"# caf\xe9\n" + DOUBLE.encode())
        uri = f"tilelang-cuda://{path.as_posix()}/double.cu"
        assert "is not UTF-8 (byte 5: 0xe9)" in await content(client, uri)
        path.write_bytes(b"# -*- coding: latin-1 -*-\n# caf\xe9\n" + DOUBLE.encode())
        assert "__global__" in await content(client, uri)
        # What an editor makes of it is a text like any other.
        file = await File(client, path.as_uri(), "# caf\ufffd\n" + DOUBLE).analysed()
        assert await file.errors() == []
        file.close()

    async def test_documents_that_are_not_there(self, client: LanguageClient):
        assert "cannot read /nowhere.py" in await content(client, "tilelang-cuda:///nowhere.py/k.cu")
        with pytest.raises(Exception, match="is no preview"):
            await content(client, "tilelang-cuda:///k.cu")
        closed = types.TextDocumentIdentifier("file:///closed.py")
        params = types.HoverParams(closed, types.Position(0, 0))
        assert await client.text_document_hover_async(params) is None


class TestRuns:
    async def test_a_run_passes_and_says_so(self, client: LanguageClient):
        file = await File(client, "file:///tmp/run_double.py", DOUBLE).analysed()
        result = await file.run("double")
        assert result["passed"], result
        assert result["device"] == "CPU (no GPU found)" or result["device"].startswith("NVIDIA")
        assert [c["sizes"] for c in result["cases"]][:2] == [[["N", 4096]], [["N", 1000]]]
        assert client.messages[-1].message.startswith("✓ double matches ref_double")
        assert (await file.lenses())[-1].command.title.startswith("✓ double matches")
        file.close()

    async def test_a_mismatch_is_a_diagnostic_until_the_kernel_is_edited(self, client: LanguageClient):
        text = DOUBLE.replace("return A * 2", "return A * 2 + (A > 3)")
        file = await File(client, "file:///tmp/run_wrong.py", text).analysed()
        result = await file.run("double")
        assert not result["passed"] and result["error"] is None
        (problem,) = await file.errors()
        assert problem.code == "run-mismatch" and problem.range.start == file.position("double(A, block")
        assert "first at [" in problem.message
        file.replace("import time\n", "import time\n\n")
        assert [d.code for d in await file.errors()] == ["run-mismatch"]
        file.replace("* 2.0", "* 2.00")
        assert await file.errors() == []
        file.close()

    async def test_a_run_that_takes_too_long_is_ended_by_cancel(self, client: LanguageClient):
        text = DOUBLE + "\n\nwhile True:\n    time.sleep(0.1)\n"
        file = await File(client, "file:///tmp/run_endless.py", text).analysed()
        before = set(children(client._server.pid))
        params = types.ExecuteCommandParams(
            "tilelang.runAndAssert", [{"uri": file.uri, "kernel": "double"}], work_done_token="run-1"
        )
        running = asyncio.ensure_future(client.workspace_execute_command_async(params))
        started = await until(lambda: _new_children(client, before))
        assert "A" in await file.hover("A[bx")  # meanwhile others are answered
        client.window_work_done_progress_cancel(types.WorkDoneProgressCancelParams("run-1"))
        result = as_dict(await asyncio.wait_for(running, 20))
        assert result["error"] == "the run was cancelled"
        assert await file.errors() == []  # it was no failure of the kernel's
        assert not any(Path(f"/proc/{pid}").exists() for pid in started)
        file.close()

    async def test_an_error_of_the_users_file_stands_at_its_line(self, client: LanguageClient):
        text = DOUBLE + "\n\nraise RuntimeError('no luck')\n"
        file = await File(client, "file:///tmp/run_raises.py", text).analysed()
        result = await file.run("double")
        assert "RuntimeError: no luck" in result["error"]
        (problem,) = await file.errors()
        assert problem.code == "run-failed" and problem.range.start == file.position("raise RuntimeError")
        file.close()

    async def test_an_untrusted_workspace_runs_nothing(self, client: LanguageClient):
        file = await File(client, "file:///tmp/run_untrusted.py", DOUBLE).analysed()
        settings = types.DidChangeConfigurationParams({"tilelang": {"trusted": False}})
        client.workspace_did_change_configuration(settings)
        result = await file.run("double")
        assert "not trusted" in result["error"]
        assert await file.errors() == []
        settings = types.DidChangeConfigurationParams({"tilelang": {"trusted": True}})
        client.workspace_did_change_configuration(settings)
        file.close()

    async def test_unknown_kernels_and_arguments(self, client: LanguageClient):
        file = await File(client, "file:///tmp/run_unknown.py", DOUBLE).analysed()
        assert "has no kernel nothing (known: double)" in (await file.run("nothing"))["error"]
        with pytest.raises(Exception, match="expected a text at kernel"):
            params = types.ExecuteCommandParams("tilelang.runAndAssert", [{"uri": file.uri}])
            await client.workspace_execute_command_async(params)
        file.close()


async def _new_children(client: LanguageClient, before: set[int]) -> set[int]:
    new = set(children(client._server.pid)) - before
    return {pid for pid in new if b"run_kernel.py" in Path(f"/proc/{pid}/cmdline").read_bytes()}
