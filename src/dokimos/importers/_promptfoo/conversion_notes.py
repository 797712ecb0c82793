"""What could not be converted, and what is a little different now."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Notes:
    """Collects remarks, each once, with the number of times that it was made."""

    lost: dict[str, int] = field(default_factory=dict)
    """What the suite lacks."""
    changed: dict[str, int] = field(default_factory=dict)
    """What the suite has in another form."""

    def lose(self, what: str) -> None:
        """Note something that was not converted."""
        # Counted, not listed: a configuration may lose the same thing in a thousand tests.
        self.lost[what] = self.lost.get(what, 0) + 1

    def change(self, what: str) -> None:
        """Note something that was converted, but not exactly."""
        self.changed[what] = self.changed.get(what, 0) + 1

    def lines(self) -> list[str]:
        """Return the remarks for people."""
        sections = [("not converted", self.lost), ("changed", self.changed)]
        return [
            f"{kind}: {text}{f' ({count} times)' if count > 1 else ''}"
            for kind, texts in sections
            for text, count in texts.items()
        ]
