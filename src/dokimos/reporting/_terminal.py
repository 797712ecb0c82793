"""Consoles that show foreign text and never let it act on the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from dokimos._runtime.terminal_text import escape_control_characters

if TYPE_CHECKING:
    from rich.console import Console
    from rich.segment import Segment


def safe_console(**options: Any) -> Console:
    """Return a console of rich that writes control characters in what it is given as escapes.

    Signs that its output has no code for become question marks.
    """
    from rich.console import Console
    from rich.segment import Segment

    class SafeConsole(Console):
        def render(self, *arguments: Any, **keywords: Any) -> Iterable[Segment]:
            # Its own control codes are segments of a kind of their own: any other came with the text.
            for segment in super().render(*arguments, **keywords):
                yield segment if segment.control else Segment(self._writable(segment.text), segment.style)

        def _writable(self, text: str) -> str:
            return escape_control_characters(text).encode(self.encoding, "replace").decode(self.encoding)

    # In a notebook rich would display each line on its own, whatever file it is given.
    return SafeConsole(highlight=False, soft_wrap=False, force_jupyter=False, **options)
