"""Puts what is made from the code where a page asks for it, and renews the page when that changes."""

from functools import cache
from hashlib import sha256

PARTS = {}
"""What makes each part, by its mark."""


def add_part(app, mark, make):
    """Replace `mark` on each page with what `make` returns.

    Sphinx reads a page again only if its file has changed, so without more a page would keep an old part.
    """
    make = PARTS[mark] = cache(make)  # the code does not change during a build

    def insert(app, name, source):
        if mark in source[0]:
            source[0] = source[0].replace(mark, make())

    def find_outdated(app, env, added, changed, removed):
        digests = vars(env).setdefault("digests_of_parts", {})
        before, digests[mark] = digests.get(mark), sha256(make().encode()).hexdigest()
        if before == digests[mark]:
            return []
        return [name for name in env.found_docs if mark in env.doc2path(name).read_text(encoding="utf-8")]

    app.connect("source-read", insert)
    app.connect("env-get-outdated", find_outdated)


def fill_parts(text):
    """Return a page with all its parts."""
    for mark, make in PARTS.items():
        if mark in text:
            text = text.replace(mark, make())
    return text
