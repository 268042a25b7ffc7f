"""Both sides of the custom protocol, and its page, name the same requests, results and settings."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest

from tests.editors.editor_rig import REPOSITORY
from tilelang.facts.reports import RunCase, RunResult
from tilelang_lsp.protocol import custom
from tilelang_lsp.settings import Settings

EXTENSION = REPOSITORY / "vscode-extension"
NVIM = REPOSITORY / "editors" / "nvim"


def messages(text: str) -> set[str]:
    """Requests and notifications named in a text."""
    return set(re.findall(r"['\"`](tilelang/\w+)['\"`]", text))


def text_of(folder: Path, pattern: str) -> str:
    return "\n".join(path.read_text() for path in sorted(folder.rglob(pattern)))


def server_names(prefix: str) -> set[str]:
    constants = [value for name, value in vars(custom).items() if name.isupper()]
    return {value for value in constants if isinstance(value, str) and value.startswith(prefix)}


def protocol_ts() -> str:
    return (EXTENSION / "src" / "protocol.ts").read_text()


def test_the_extension_knows_exactly_the_server_s_messages() -> None:
    assert messages(protocol_ts()) == server_names("tilelang/")


def test_the_neovim_plugin_uses_only_the_server_s_messages() -> None:
    used = messages(text_of(NVIM, "*.lua"))
    assert used
    assert used <= server_names("tilelang/")


def test_the_page_documents_all_messages_and_commands() -> None:
    page = (REPOSITORY / "docs" / "protocol.md").read_text()
    missing = [name for name in server_names("tilelang") if name not in page]
    assert not missing


def test_client_commands_are_no_server_commands_of_another_meaning() -> None:
    manifest = json.loads((EXTENSION / "package.json").read_text())
    contributed = {command["command"] for command in manifest["contributes"]["commands"]}
    # The client library registers the server's commands; registering one again throws at start-up.
    assert contributed.isdisjoint({custom.RUN_AND_ASSERT, custom.SHOW_GENERATED_SOURCE, custom.EXPLAIN_RULE})
    assert custom.CLIENT_PREVIEW in contributed


@pytest.mark.parametrize("record", [RunCase, RunResult])
def test_result_records_have_the_same_fields(record: type) -> None:
    body = re.search(rf"interface {record.__name__} {{(.*?)\n}}", protocol_ts(), re.DOTALL)
    assert body
    assert re.findall(r"^  (\w+):", body[1], re.MULTILINE) == [f.name for f in dataclasses.fields(record)]


def test_initialization_options_are_read_by_the_server() -> None:
    body = re.search(r"interface InitializationOptions {(.*?)\n}", protocol_ts(), re.DOTALL)
    assert body
    sent = dict.fromkeys(re.findall(r"^  (\w+):", body[1], re.MULTILINE))
    values = {
        "preview": "client",
        "generatedSourceChanged": True,
        "runFinished": True,
        "trusted": False,
        "target": "hip:gfx942",
        "select": ["shape"],
        "ignore": None,
        "specialisations": {"gemm": {"block_M": 64}},
        "interpreter": "/usr/bin/python3",
        "runTimeout": 7,
    }
    assert set(sent) == set(values)
    settings, complaints = Settings().updated(values)
    assert not complaints
    assert settings == Settings(
        preview="client",
        generated_source_changed=True,
        run_finished=True,
        trusted=False,
        target="hip:gfx942",
        select=frozenset({"shape"}),
        specialisations={"gemm": {"block_M": "64"}},
        interpreter="/usr/bin/python3",
        run_timeout_s=7,
    )


def test_defaults_of_the_editors_are_the_server_s() -> None:
    manifest = json.loads((EXTENSION / "package.json").read_text())
    properties = manifest["contributes"]["configuration"]["properties"]
    names = ("target", "select", "ignore", "specialisations", "runTimeout", "interpreter")
    defaults = {name: properties[f"tilelang.{name}"]["default"] for name in names}
    assert Settings().updated(defaults) == (Settings(), [])
    # Neovim's configuration sets none of them: what is set there goes over the project's.
    nvim = (NVIM / "lsp" / "tilelang.lua").read_text()
    assert not [name for name in names if re.search(rf"^\s*{name} = ", nvim, re.MULTILINE)]


def test_the_lock_file_names_no_registry() -> None:
    lock = json.loads((EXTENSION / "package-lock.json").read_text())
    assert not [name for name, package in lock["packages"].items() if "resolved" in package]


def test_the_picture_of_the_readme_stays_small() -> None:
    assert (REPOSITORY / "docs" / "images" / "vscode.png").stat().st_size < 300 * 1024
