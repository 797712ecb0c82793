"""The worker that sends alerts to webhooks."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from sqlalchemy import Connection

from dokimos._http.address_policy import AddressPolicy
from dokimos._http.webhook import WebhookFailure, WebhookReply, post_webhook
from dokimos.server._db.clock import SECOND, now
from dokimos.server._db.database import Database, DatabaseUnavailable, Lane, ReadTooSlow
from dokimos.server._db.ids import new_id
from dokimos.server._services.alerts.alert_claims import (
    Attempt,
    Claim,
    claim_alerts,
    give_back,
    has_due_alerts,
    store_attempt,
)
from dokimos.server._services.alerts.alert_deliveries import remove_old_deliveries
from dokimos.server._services.alerts.alert_payload import link_to, render_body
from dokimos.server._services.alerts.alert_schedule import next_wait
from dokimos.server._services.alerts.alert_signature import sign
from dokimos.server._services.alerts.alert_webhooks import outgoing_policy
from dokimos.server._services.audit.audited_database import CURRENT_WORK
from dokimos.server._services.encryption.secret_rotation import rotate_secrets
from dokimos.server._services.encryption.secret_vault import SecretLost, SecretVault
from dokimos.server._services.metrics import Metrics
from dokimos.server._settings import ServerSettings
from dokimos.server._workers.periodic import (
    end_task,
    is_asked_to_end,
    repeat_until_done,
    run_periodically,
)
from dokimos.server._workers.row_ages import AgeClock

_RANDOM: Final = random.Random()
"""Of our own: what else draws from the global generator may have seeded it."""
_LOGGER: Final = logging.getLogger("dokimos.server")
_POLL_SECONDS: Final = 5.0
"""How often the outbox is looked at for what other servers stored, and for what is due again."""
_AT_ONCE: Final = 8
_FAILING_AT_ONCE: Final = 4
"""How many of these may go to webhooks that failed last time."""
_TESTS_AT_ONCE: Final = 4
_TIDY_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 11.0
_LONG_SECONDS: Final = 120.0
"""What sending may still take when the server stops: a little more than the time limit of a request."""
_GONE: Final = 410
_FIRST_GOOD, _FIRST_ELSEWHERE, _FIRST_REFUSED = 200, 300, 400
Poster = Callable[..., Awaitable[WebhookReply]]


class AlertDelivery:
    """Sends what is in the outbox of alerts, a few at once, each to another webhook."""

    def __init__(
        self,
        database: Database,
        settings: ServerSettings,
        vault: SecretVault,
        metrics: Metrics,
        *,
        post: Poster = post_webhook,
        wall: Callable[[], float] = lambda: now() / SECOND,
        chance: Callable[[], float] = _RANDOM.random,
    ) -> None:
        self._database = database
        self._settings = settings
        self._vault = vault
        self._post = post
        self._wall = wall
        self._chance = chance
        self._ages = AgeClock()
        self._attempts = metrics.counter(
            "dokimos_alert_attempts_total", "Attempts to call a webhook, by what came of them.", ("outcome",)
        )
        self._given_up = metrics.counter(
            "dokimos_alerts_given_up_total", "Alerts that are not tried again; a person can send them again."
        )
        metrics.watch(
            "dokimos_alerts_in_flight", "Webhooks that are being called.", lambda: len(self._sending)
        )
        self._wake = asyncio.Event()
        self._sending: dict[asyncio.Task[None], bool] = {}
        """What is being sent, and whether to a webhook that failed last time."""
        self._tests = asyncio.Semaphore(_TESTS_AT_ONCE)

    def wake(self) -> None:
        """Look at the outbox at once: something was stored."""
        self._wake.set()

    async def run(self) -> None:
        """Send what is due, again and again, until cancelled."""
        CURRENT_WORK.set("Sending alerts")
        while not is_asked_to_end():
            self._wake.clear()
            try:
                claims = await self._claim()
            except (DatabaseUnavailable, ReadTooSlow) as error:
                _LOGGER.warning("Alerts wait: the database is not available: %s", error)
                claims = []
            except Exception:
                _LOGGER.exception("Looking for alerts failed; it is tried again")
                claims = []
            for claim in claims:
                self._start(claim)
            if not claims and not is_asked_to_end():
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), _POLL_SECONDS)

    async def stop(self) -> None:
        """Wait for what is being sent; what takes too long is left to the next start, or to other servers."""
        if not self._sending:
            return
        _, late = await asyncio.wait(self._sending, timeout=_STOP_SECONDS)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def send_now(self, queue: Callable[[Connection], Claim]) -> str:
        """Store something, send it, and return its id; whoever asked for it need not wait for that.

        Args:
            queue: Stores and claims it, in a transaction.

        Raises:
            ServiceError: What `queue` raises.
        """
        async with self._tests:  # before it is claimed: a lease does not wait
            claim = await self._database.write(queue)
            await asyncio.shield(self._start(claim))
        return claim.delivery_id

    def _start(self, claim: Claim) -> asyncio.Task[None]:
        task = asyncio.create_task(self._send_or_log(claim), name=f"dokimos alert {claim.delivery_id}")
        self._sending[task] = claim.is_failing
        task.add_done_callback(self._note_end)
        return task

    async def _send(self, claim: Claim) -> None:
        """Send something that was claimed, and store what came of it."""
        attempt = await self._try(claim)
        has_failed = attempt.error is not None
        wait = None
        if has_failed and not claim.is_test and not attempt.is_gone:
            wait = next_wait(claim.failures + 1, attempt.retry_after, self._chance())
        await self._database.write(lambda connection: store_attempt(connection, claim, attempt, wait))
        self._attempts.add(("failed" if has_failed else "delivered",))
        if has_failed and wait is None:
            self._given_up.add()
        if has_failed:
            _log_failure(claim, attempt, wait)

    async def tidy(self) -> None:
        """Remove what is old, in small transactions."""
        days = self._settings.alert_log_days
        moment = self._ages.now()
        await repeat_until_done(
            lambda: self._database.write(lambda connection: remove_old_deliveries(connection, days, moment))
        )

    async def _claim(self) -> list[Claim]:
        free = _AT_ONCE - len(self._sending)
        if free <= 0 or not await self._database.read(has_due_alerts, Lane.WORK):
            return []
        failing = _FAILING_AT_ONCE - sum(self._sending.values())
        return await self._database.write(
            partial(claim_alerts, lease=new_id(), most=free, most_failing=max(0, failing))
        )

    def _note_end(self, task: asyncio.Task[None]) -> None:
        del self._sending[task]
        self.wake()

    async def _send_or_log(self, claim: Claim) -> None:
        try:
            await self._send(claim)
        except asyncio.CancelledError:
            with suppress(DatabaseUnavailable):
                await asyncio.shield(self._database.write(partial(give_back, lease=claim.lease)))
            raise
        except DatabaseUnavailable as error:
            _LOGGER.warning(
                "What came of alert %s is not stored, so it is sent again: %s", claim.delivery_id, error
            )
        except Exception:
            _LOGGER.exception("Storing what came of alert %s failed", claim.delivery_id)

    async def _try(self, claim: Claim) -> Attempt:
        """Make one attempt. No error of it may quote the address, whose path is a secret."""
        try:
            secret = await self._read_secret(claim)
            policy = await self._database.read(self._find_policy, Lane.WORK)
            facts = {**claim.facts, "link": link_to(claim.facts, self._settings.public_url)}
            body = render_body(facts, claim.format, claim.fields)
            headers = sign(body, secret, message_id=claim.delivery_id, seconds=int(self._wall()))
            reply = await self._post(claim.url, body, headers, policy=policy)
        except (SecretLost, WebhookFailure) as error:
            return Attempt(error=str(error))
        except DatabaseUnavailable:
            raise
        except Exception as error:
            return Attempt(error=f"The server could not send it ({type(error).__name__}).")
        return _read_reply(reply)

    async def _read_secret(self, claim: Claim) -> str | None:
        if claim.secret is None:
            return None
        await self._vault.learn_keys_of(self._database, [claim.secret])
        return self._vault.unseal(claim.secret, claim.webhook_id)

    def _find_policy(self, connection: Connection) -> AddressPolicy:
        return outgoing_policy(connection, self._settings)


@asynccontextmanager
async def deliver_alerts(
    delivery: AlertDelivery, database: Database, vault: SecretVault
) -> AsyncIterator[None]:
    """Send alerts until the context ends; secrets are encrypted with the present key before."""
    await vault.open(database)
    rotation = await rotate_secrets(database, vault)
    if rotation.changed.total():
        _LOGGER.info("%d secrets are encrypted with the present key now.", rotation.changed.total())
    for lost in rotation.lost:
        _LOGGER.warning("The secret of the %s cannot be read. %s", lost.owner, lost.reason)
    async with run_periodically("Removing old alerts", delivery.tidy, _TIDY_SECONDS):
        task = asyncio.create_task(delivery.run(), name="dokimos alerts")
        try:
            yield
        finally:
            await end_task(task)
            await delivery.stop()


def _read_reply(reply: WebhookReply) -> Attempt:
    status = reply.status
    if _FIRST_GOOD <= status < _FIRST_ELSEWHERE:
        return Attempt(status_code=status)
    error = f"The receiver answered {status}."
    if _FIRST_ELSEWHERE <= status < _FIRST_REFUSED:
        error = f"The receiver answered {status}; redirects are not followed, so register the final address."
    return Attempt(error=error, status_code=status, retry_after=reply.retry_after, is_gone=status == _GONE)


def _write_wait(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < _LONG_SECONDS else f"{seconds / 60:.0f} min"


def _log_failure(claim: Claim, attempt: Attempt, wait: float | None) -> None:
    what_next = "It is given up." if wait is None else f"The next attempt is in {_write_wait(wait)}."
    _LOGGER.warning(
        "Alert %s for webhook %s at %s has not arrived: %s %s",
        claim.delivery_id,
        claim.webhook_id,
        urlsplit(claim.url).hostname,
        attempt.error,
        what_next,
    )
