"""The headers of an alert: the documented signature, and those of Standard Webhooks.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

import base64
import binascii
import hmac
from typing import Final

_STANDARD: Final = "whsec_"
"""What a secret begins with whose rest is the key in Base64."""


def find_secret_fault(secret: str) -> str | None:
    """Say what is wrong with a secret, None where nothing is."""
    if not secret.startswith(_STANDARD):
        return None
    try:
        key = _key_of(secret)
    except ValueError:
        key = b""
    return None if key else f"begins with {_STANDARD}, so the rest must be a key in Base64"


def sign(body: bytes, secret: str | None, *, message_id: str, seconds: int) -> dict[str, str]:
    """Return the headers of a request.

    Args:
        body: The body, as it is sent.
        secret: The secret of the webhook; None for a request without a signature.
        message_id: The same for each attempt to send a message, by which a receiver knows it again.
        seconds: When this attempt is made, in seconds since 1970.
    """
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "dokimos",
        "webhook-id": message_id,
        "webhook-timestamp": str(seconds),
    }
    if secret is None:
        return headers
    headers["X-Dokimos-Signature"] = hmac.digest(secret.encode(), body, "sha256").hex()
    signed = f"{message_id}.{seconds}.".encode() + body
    signature = base64.b64encode(hmac.digest(_key_of(secret), signed, "sha256")).decode()
    headers["webhook-signature"] = f"v1,{signature}"
    return headers


def _key_of(secret: str) -> bytes:
    """The key of Standard Webhooks: what `whsec_` stands before in Base64, or else the text itself."""
    if not secret.startswith(_STANDARD):
        return secret.encode()
    text = secret.removeprefix(_STANDARD)
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error as error:
        raise ValueError("The secret is not Base64.") from error
