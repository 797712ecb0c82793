"""Call a webhook: one request to an address that somebody entered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from dokimos._http.address_policy import AddressPolicy
from dokimos._http.answer import Forbidden, NoAnswer, Unsendable
from dokimos._http.backoff import retry_after

CONNECT_SECONDS: Final = 5.0
TOTAL_SECONDS: Final = 10.0


class WebhookReply(NamedTuple):
    """What a webhook answered: its status. Whatever else it says is not read."""

    status: int
    retry_after: float | None
    """Seconds that it asks to wait."""


class WebhookFailure(Exception):
    """A webhook was not called, or did not answer; the message holds neither path nor query of its URL."""


async def post_webhook(
    url: str, body: bytes, headers: Mapping[str, str], *, policy: AddressPolicy
) -> WebhookReply:
    """Send a body to a webhook; redirects are not followed.

    It takes 5 seconds to connect and 10 in all at most, including the look-up of the name. The body of the
    answer is not read, however large it is or however slowly it comes: what counts is the status, and what a
    host answers is none of the business of whoever entered its address.

    Args:
        url: The address.
        body: What to send.
        headers: To send with it.
        policy: Where requests may go.

    Raises:
        WebhookFailure: It was not called, or did not answer.
    """
    from dokimos._http.session import Session

    try:
        session = Session(url, policy, is_of_stranger=True)
    except Unsendable:
        raise WebhookFailure(_UNUSABLE) from None
    try:
        answer = await session.post(
            url, body, headers, seconds=TOTAL_SECONDS, connect_seconds=CONNECT_SECONDS
        )
    except Forbidden as fault:
        raise WebhookFailure(f"Not sent: the URL {fault}.") from None
    except NoAnswer as fault:
        raise WebhookFailure(f"{fault}."[:1].upper() + f"{fault}."[1:]) from None
    except Unsendable:  # its text may quote the URL
        raise WebhookFailure(_UNUSABLE) from None
    finally:
        await session.close()
    return WebhookReply(answer.status, retry_after(answer.headers))


_UNUSABLE: Final = "The URL cannot be called as it is."
