"""The server: stores runs, datasets and comparisons, and serves them to clients and browsers.

It needs the extra `server`. `dokimos serve` starts it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dokimos._exports import lazy_exports

if TYPE_CHECKING:
    from dokimos.server._app import create_app as create_app
    from dokimos.server._settings import ServerSettings as ServerSettings

_MODULE_OF: Final = {
    "ServerSettings": "dokimos.server._settings",
    "create_app": "dokimos.server._app",
}
__all__ = ["ServerSettings", "create_app"]

if not TYPE_CHECKING:  # so that type checkers still report a name that does not exist
    __getattr__, __dir__ = lazy_exports(__name__, _MODULE_OF)
