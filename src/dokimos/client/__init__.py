"""A dokimos server as a destination: report runs to it while they go on, and send what could not be sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dokimos._exports import lazy_exports

if TYPE_CHECKING:
    from dokimos.client._push import push_result as push_result
    from dokimos.client._replay import SpoolReplay as SpoolReplay
    from dokimos.client._replay import replay_spool as replay_spool
    from dokimos.client._reporter import ServerReporter as ServerReporter
    from dokimos.client._server_run import ItemDeliveryFailure as ItemDeliveryFailure

_MODULE_OF: Final = {
    "ItemDeliveryFailure": "dokimos.client._server_run",
    "ServerReporter": "dokimos.client._reporter",
    "SpoolReplay": "dokimos.client._replay",
    "push_result": "dokimos.client._push",
    "replay_spool": "dokimos.client._replay",
}
__all__ = ["ItemDeliveryFailure", "ServerReporter", "SpoolReplay", "push_result", "replay_spool"]

if not TYPE_CHECKING:  # so that type checkers still report a name that does not exist
    __getattr__, __dir__ = lazy_exports(__name__, _MODULE_OF)
