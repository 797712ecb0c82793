"""A model's answer in a common form for all provider protocols, and how to read provider JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple

from dokimos._core.text import shorten
from dokimos.judges._protocol import TokenLogprob

Finish = Literal["stop", "length", "filter", "refusal"]

MAX_QUOTED_LENGTH: Final = 200


class TokenCounts(NamedTuple):
    """Tokens as the provider counted them."""

    tokens_in: int | None = None
    tokens_out: int | None = None
    cached: int | None = None
    reasoning: int | None = None


class Completion(NamedTuple):
    """A model's answer and why the model stopped."""

    text: str
    finish: Finish
    logprobs: tuple[TokenLogprob, ...] | None = None


def count(value: object) -> int | None:
    """Return a number of tokens, None if the value is not one."""
    if type(value) is int:  # of nearly all that come here
        return value if value >= 0 else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def part(tree: object, *keys: str) -> Any:
    """Return the value under a path of keys in JSON, None if there is none."""
    for key in keys:
        if type(tree) is not dict:
            return None
        tree = tree.get(key)
    return tree


def parts(tree: object, *keys: str) -> list[Mapping[str, Any]]:
    """Return the objects in the list under a path of keys in JSON."""
    entries = part(tree, *keys)
    return [each for each in entries if type(each) is dict] if type(entries) is list else []


def token_logprobs(entries: Iterable[Mapping[str, Any]]) -> tuple[TokenLogprob, ...] | None:
    """Parse token probabilities, in the form of OpenAI, Ollama and compatible servers."""
    logprobs = [
        TokenLogprob(str(entry["token"]), float(entry["logprob"]), _alternatives(entry))
        for entry in entries
        if _is_logprob(entry)
    ]
    return tuple(logprobs) if logprobs else None


def explain_incomplete(completion: Completion, max_tokens: int | None) -> str | None:
    """Return why an answer is missing or incomplete, None if it is complete."""
    if completion.finish == "stop":
        return None
    shown = f" It was: {shorten(completion.text, MAX_QUOTED_LENGTH)!r}" if completion.text else ""
    if completion.finish == "length":
        limit = "its limit of tokens" if max_tokens is None else f"max_tokens={max_tokens}"
        return f"the reply was cut off at {limit}; allow more tokens.{shown}"
    if completion.finish == "filter":
        return f"the reply was stopped by the provider's content filter.{shown}"
    return f"the model refused to answer.{shown}"


def _alternatives(entry: Mapping[str, Any]) -> dict[str, float]:
    return {
        str(each["token"]): float(each["logprob"])
        for each in parts(entry, "top_logprobs")
        if _is_logprob(each)
    }


def _is_logprob(entry: Mapping[str, Any]) -> bool:
    return "token" in entry and isinstance(entry.get("logprob"), int | float)
