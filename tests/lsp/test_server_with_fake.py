"""Whole sessions over stdio with the fake compiler: what happens when analysis fails, crashes or hangs."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
import pytest_lsp
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities

from tests.lsp.sessions import File, accept_registrations

SERVER = Path(__file__).with_name("fake_server.py")
pytestmark = pytest.mark.asyncio(loop_scope="module")

URI = "file:///nowhere/kernels.py"
TEXT = """\
import tilelang
import tilelang.language as T


@tilelang.jit
def k(A):
    with T.Kernel(1, threads=128) as bx:
        s = T.alloc_shared((64, 64), T.float16)
        T.copy(A, s)
        T.wrong()
"""


@pytest_lsp.fixture(
    params=["neovim", "visual-studio-code"],
    config=ClientServerConfig(server_command=[sys.executable, str(SERVER)]),
    scope="module",
)
async def client(request: pytest.FixtureRequest, lsp_client: LanguageClient):
    accept_registrations(lsp_client)
    await lsp_client.initialize_session(
        types.InitializeParams(capabilities=client_capabilities(request.param), root_uri="file:///nowhere")
    )
    yield
    await lsp_client.shutdown_session()


async def test_first_slice(client: LanguageClient):
    file = await File(client, URI, TEXT).analysed()
    found = await file.diagnostics()
    assert [(d.code, d.range.start.line, d.range.start.character) for d in found] == [("fake-rule", 9, 8)]
    assert "s: float16[64, 64] shared" in await file.hover("A, s)", 3)
    assert [lens.command.title for lens in await file.lenses()] == [
        "▶ run & assert vs torch",
        "preview CUDA",
        "preview HIP",
        "preview Metal",
        "shared memory 8 KiB of 227 KiB",
    ]
    file.close()


@pytest.mark.parametrize(
    ("call", "said"), [("T.boom()", "boom"), ("T.crash()", "ended the analysis process")]
)
async def test_a_kernel_that_trips_the_compiler_is_told_and_the_others_stay(
    client: LanguageClient, call: str, said: str
):
    text = TEXT + f"\n\n@tilelang.jit\ndef bad(A):\n    {call}\n"
    file = await File(client, "file:///nowhere/bad.py", text).analysed()
    wrong, failed = await file.diagnostics()
    assert wrong.code == "fake-rule"
    assert failed.code == "analysis-failed" and failed.severity == types.DiagnosticSeverity.Information
    assert failed.range.start.line == text.split("\n").index("def bad(A):") - 1
    assert said in failed.message and "not in your kernel" in failed.message
    assert await file.hover("s =") is not None
    file.close()


async def test_typing_is_answered_for_the_newest_text(client: LanguageClient):
    """Many edits in a row, each with its request: every answer is about the last text."""
    file = await File(client, "file:///nowhere/typed.py", TEXT).analysed()
    asked = []
    for _ in range(10):
        file.replace("        T.wrong()\n", "        T.slow(); T.wrong()\n")
        file.replace("        T.slow(); T.wrong()\n", "        T.wrong()\n")
        asked.append(asyncio.ensure_future(file.diagnostics()))
    answers = await asyncio.wait_for(asyncio.gather(*asked), 20)
    assert {tuple((d.code, d.range.start.character) for d in a) for a in answers} == {(("fake-rule", 8),)}
    file.close()


@pytest_lsp.fixture(
    config=ClientServerConfig(server_command=[sys.executable, str(SERVER), "nothing"]), scope="module"
)
async def lonely(lsp_client: LanguageClient):
    accept_registrations(lsp_client)
    await lsp_client.initialize_session(
        types.InitializeParams(capabilities=client_capabilities("neovim"), root_uri="file:///nowhere")
    )
    yield
    await lsp_client.shutdown_session()


async def test_without_analysis_process_syntax_errors_remain(lonely: LanguageClient):
    file = File(lonely, URI, TEXT + "x = (\n")
    (error,) = await file.diagnostics()
    assert error.code == "syntax-error"
    assert "cannot start /nowhere/python" in lonely.messages[0].message
    assert len(await file.lenses()) == 4
    assert await file.hover("s =") is None
    assert "cannot start" in (await file.generated("k"))["error"]
    file.close()
