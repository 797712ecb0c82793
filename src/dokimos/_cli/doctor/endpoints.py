"""Whether models and endpoints that are configured answer, and what they can do."""

from __future__ import annotations

import asyncio
import os
import socket
import warnings
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from dokimos._cli.doctor.finding import Finding
from dokimos._core.text import shorten

if TYPE_CHECKING:
    from dokimos.judges._provider import HttpJudge

CONNECT_SECONDS: Final = 5.0
ANSWER_SECONDS: Final = 30.0
_PROMPT: Final = "Reply with JSON: the word yes as answer."
_SCHEMA: Final = {
    "type": "object",
    "properties": {"answer": {"type": "string", "enum": ["yes"]}},
    "required": ["answer"],
    "additionalProperties": False,
}


def find_base_urls() -> Iterator[Finding]:
    """Say whether the endpoints that the environment names can be reached."""
    from dokimos.judges._factory import url_variables

    for variable in url_variables():
        url = os.environ.get(variable)
        if url:
            yield find_url(variable, url if "://" in url else f"http://{url}")


def find_url(name: str, url: str, *, is_needed: bool = False) -> Finding:
    """Say whether somebody listens at a URL; nothing is sent."""
    from dokimos._http.credentials import redact_url

    parts = urlsplit(url)
    printable_url = redact_url(url)
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
        # Only a connection: a request to an agent may have effects.
        with socket.create_connection((parts.hostname or "", port), timeout=CONNECT_SECONDS):
            return Finding(
                group="endpoints",
                name=name,
                state="ok",
                found=f"{printable_url} can be reached",
                is_needed=is_needed,
            )
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        return Finding(
            group="endpoints",
            name=name,
            state="fault",
            found=f"{printable_url} cannot be reached: {why}",
            remedy="start the server, or correct the address",
            is_needed=is_needed,
        )


def find_judges(judges: Iterable[HttpJudge], *, is_needed: bool) -> Iterator[Finding]:
    """Ask each judge one short question: does it answer, hold to a schema, give log probabilities."""
    from dokimos._runtime.concurrency import run_sync

    # Each once: many metrics of a suite share a judge.
    for judge in {judge.identity: judge for judge in judges}.values():
        yield run_sync(_look_at(judge, is_needed))


async def _look_at(judge: HttpJudge, is_needed: bool) -> Finding:
    from dokimos.errors import DokimosError

    probe = judge.with_settings(attempts=1).with_logprobs()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what it refuses is what is to be found out
            async with asyncio.timeout(ANSWER_SECONDS):
                reply = await probe.complete(_PROMPT, schema=_SCHEMA)
    except (DokimosError, TimeoutError) as error:
        why = f"no answer within {ANSWER_SECONDS:g} s" if isinstance(error, TimeoutError) else str(error)
        return Finding(
            group="endpoints",
            name=judge.label,
            state="fault",
            found=shorten(why, 300),
            remedy="check its key, its address and the model's name",
            is_needed=is_needed,
        )
    finally:
        await probe.aclose()
    structured = "holds replies to a schema" if reply.schema_enforced else "replies are read leniently"
    logprobs = "gives log probabilities" if reply.logprobs else "gives no log probabilities"
    return Finding(
        group="endpoints",
        name=judge.label,
        state="ok",
        found=f"answers; {structured}; {logprobs}",
        is_needed=is_needed,
    )
