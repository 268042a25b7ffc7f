"""What the client can do, read once from its `initialize` request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lsprotocol import types


@dataclass(frozen=True)
class ClientFeatures:
    """The capabilities that decide what we send. Everything is off for a client that says nothing."""

    pull_diagnostics: bool = False
    refresh_diagnostics: bool = False
    refresh_lenses: bool = False
    refresh_hints: bool = False
    refresh_tokens: bool = False
    text_document_content: bool = False
    show_document: bool = False
    progress: bool = False
    configuration: bool = False
    watched_files: bool = False

    @staticmethod
    def of(capabilities: types.ClientCapabilities) -> ClientFeatures:
        text, work, window = capabilities.text_document, capabilities.workspace, capabilities.window
        return ClientFeatures(
            pull_diagnostics=bool(text and text.diagnostic is not None),
            refresh_diagnostics=_refresh(work, "diagnostics"),
            refresh_lenses=_refresh(work, "code_lens"),
            refresh_hints=_refresh(work, "inlay_hint"),
            refresh_tokens=_refresh(work, "semantic_tokens"),
            text_document_content=bool(work and work.text_document_content is not None),
            show_document=bool(window and window.show_document and window.show_document.support),
            progress=bool(window and window.work_done_progress),
            configuration=bool(work and work.configuration),
            watched_files=bool(
                work and work.did_change_watched_files and work.did_change_watched_files.dynamic_registration
            ),
        )


def _refresh(workspace: types.WorkspaceClientCapabilities | None, name: str) -> bool:
    section: Any = getattr(workspace, name, None) if workspace else None
    return bool(section and section.refresh_support)
