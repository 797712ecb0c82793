"""Puts what is made from the code where a page asks for it, and renews the page when that changes."""

from hashlib import sha256


def add_part(app, mark, make):
    """Replace `mark` on each page with what `make` returns.

    Sphinx reads a page again only if its file has changed, so without more a page would keep an old part.
    """

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
