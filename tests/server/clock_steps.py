"""A wall clock of the server that a test sets."""

import importlib

MODULES = (
    "_api.accounts.key_ring",
    "_api.accounts.key_routes",
    "_oidc.attempt",
    "_services.accounts.api_keys",
    "_services.accounts.session_lists",
    "_services.accounts.sessions",
    "_services.accounts.users",
)
HOUR = 3600.0


def set_a_day_ahead(monkeypatch, *modules):
    """Let parts of the server see the time of the next day, as those that act after midnight do."""
    from dokimos.server._db.clock import DAY, now

    for module in modules:
        monkeypatch.setattr(f"dokimos.server.{module}.now", lambda: now() + DAY)


class Clock:
    """The time that keys, sessions and users see, which stands still until the test moves it."""

    def __init__(self, monkeypatch):
        from dokimos.server._db.clock import now

        self.microseconds = now()
        for name in MODULES:
            monkeypatch.setattr(importlib.import_module(f"dokimos.server.{name}"), "now", self)

    def __call__(self):
        return self.microseconds

    @property
    def seconds(self):
        return self.microseconds / 1e6

    def step(self, seconds):
        self.microseconds += int(seconds * 1e6)

    def format(self, seconds=0.0):
        """The time in so many seconds, as the API writes it."""
        from dokimos.server._db.clock import format_time

        return format_time(self.microseconds + int(seconds * 1e6))
