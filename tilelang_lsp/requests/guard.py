"""Keeps the bugs of one feature to itself."""

from __future__ import annotations

import functools
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from pygls.exceptions import JsonRpcException

from tilelang_lsp.language_server import NotOpen, TileLangServer

log = logging.getLogger("tilelang_lsp")

Handler = Callable[..., Awaitable[Any]]


def guarded(server: TileLangServer, scope: str, otherwise: Callable[[], Any]) -> Callable[[Handler], Handler]:
    """Keep one feature's bugs to itself: log them, answer with `otherwise()`."""

    def wrap(handler: Handler) -> Handler:
        @functools.wraps(handler)
        async def guarded(*args: Any) -> Any:
            try:
                return await handler(*args)
            except NotOpen:  # closed while the request was on its way
                return otherwise()
            except JsonRpcException:
                raise
            except Exception:  # the guard is what keeps the other features alive
                log.exception("%s failed", scope)
                server.editor.log(f"{scope} failed; the log of the language server says why")
                return otherwise()

        # pygls looks at the signature; functools.wraps would show it the one of `handler`, which is the same.
        return guarded

    return wrap


def nothing() -> None:
    return None
