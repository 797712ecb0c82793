"""What is stored of keys, tokens and codes: their hashes."""

from __future__ import annotations

import hashlib


def hash_secret(text: str) -> str:
    """Return what is stored of a random text that only its owner knows.

    A plain SHA-256 is enough for 256 random bits: there is nothing to guess, so a slow hash would only cost
    time.
    """
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
