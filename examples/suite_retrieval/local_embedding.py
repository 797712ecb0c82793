"""An embedder that runs on this machine and needs no model: texts are alike that share parts of words."""

import hashlib
import math
from collections import Counter

DIMENSIONS = 192
PART = 4


def embed(texts):
    """Return one vector for each text."""
    return [vector_of(text) for text in texts]


def vector_of(text):
    words = ["".join(filter(str.isalnum, word)) for word in text.lower().split()]
    parts = Counter(part for word in words if len(word) >= PART for part in parts_of(word))
    vector = [1e-3] * DIMENSIONS
    for part, count in parts.items():
        digest = hashlib.blake2b(part.encode(), digest_size=4).digest()
        vector[int.from_bytes(digest, "big") % DIMENSIONS] += math.sqrt(count)
    return vector


def parts_of(word):
    return [word[start : start + PART] for start in range(len(word) - PART + 1)]
