"""The command `tilelang-lsp`: the server with every request registered."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence

from tilelang.version import PACKAGE_VERSION
from tilelang_lsp.engine.client import ANALYSIS_COMMAND
from tilelang_lsp.language_server import TileLangServer
from tilelang_lsp.requests import (
    code_actions,
    documents,
    features,
    generated_source,
    lifecycle,
    navigation,
    runs,
)

FAMILIES = (lifecycle, documents, features, code_actions, navigation, generated_source, runs)


def make_server(analysis_command: Sequence[str] = ANALYSIS_COMMAND) -> TileLangServer:
    """A server that answers every request of `requests/`."""
    server = TileLangServer(analysis_command)
    for family in FAMILIES:
        family.register(server)
    return server


def main(arguments: Sequence[str] | None = None, analysis_command: Sequence[str] = ANALYSIS_COMMAND) -> None:
    """The command `tilelang-lsp`."""
    parser = argparse.ArgumentParser("tilelang-lsp", description="Language server for TileLang kernels.")
    parser.add_argument("--tcp", action="store_true", help="listen on a port instead of stdio, for debugging")
    parser.add_argument("--port", type=int, default=2087, help="port on the loopback interface (2087)")
    parser.add_argument("--stdio", action="store_true", help="the default; editors like to say it")
    parser.add_argument("--version", action="version", version=PACKAGE_VERSION)
    options = parser.parse_args(arguments)
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s"
    )
    server = make_server(analysis_command)
    if options.tcp:
        server.start_tcp("127.0.0.1", options.port)
    else:
        server.start_io()


if __name__ == "__main__":
    main()
