"""Texts cut into chunks of a limited size, at paragraphs, lines, sentences or words where possible."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

Size = Callable[[str], int]
"""How large a text is. Of two texts in a row it must be at most the sum, and 1 for a single character."""

PATH_SEPARATOR: Final = " > "
_TOKEN: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|\w{1,4}|[^\w\s]")
_BOUNDS: Final = (
    re.compile(r"\n[ \t]*\n\s*"),
    re.compile(r"\n"),
    re.compile(r"[.!?。！？…][\"'”’)\]]*\s+|[。！？]"),
    re.compile(r"\s+"),
)
"""Where a text may be cut, the best places first: after a paragraph, a line, a sentence, a word."""
_HEADING: Final = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a document."""

    text: str
    headings: tuple[str, ...] = ()
    """The headings above it, the outermost first."""

    @property
    def full_text(self) -> str:
        """The text below the path of its headings."""
        path = format_heading_path(self.headings)
        return f"{path}\n\n{self.text}" if path and self.text else path or self.text


def format_heading_path(headings: tuple[str, ...]) -> str:
    """Return `Guide > Install > Linux`."""
    return PATH_SEPARATOR.join(headings)


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a model makes of a text: one for four letters, or a sign."""
    return len(_TOKEN.findall(text))


def split_text(text: str, *, limit: int, overlap: int = 0, size: Size = len) -> list[str]:
    """Cut a text into chunks of at most `limit`, which repeat up to `overlap` of the chunk before.

    Every chunk is a part of the text as it stands, without the white space around it; together they hold all
    of it.
    """
    pieces = _with_white_space(_pieces(text, limit, size, 0))
    chunks: list[str] = []
    start = 0
    while start < len(pieces):
        end = _end_of_chunk(pieces, start, limit, size)
        chunks.append("".join(pieces[start:end]).strip())
        if end == len(pieces):
            break
        start = _start_of_next(pieces, start, end, limit, overlap, size)
    return [chunk for chunk in chunks if chunk]


def split_sections(text: str, *, limit: int, overlap: int = 0, size: Size = estimate_tokens) -> list[Chunk]:
    """Cut a Markdown text at its headings, and long sections further; each chunk keeps the headings above it.

    A chunk with the path of its headings is at most `limit`; a path that takes up more than half of that is
    counted as half.
    """
    chunks: list[Chunk] = []
    for headings, body, has_children in _sections(text):
        room = limit - min(size(format_heading_path(headings) + "\n\n"), limit // 2)
        parts = split_text(body, limit=room, overlap=min(overlap, room // 2), size=size)
        if not parts and headings and not has_children:
            parts = [""]  # a heading with nothing below it must be found too
        chunks += [Chunk(part, headings) for part in parts]
    return chunks


def _with_white_space(pieces: Iterable[str]) -> list[str]:
    """Return pieces with white space put to the one before it, or a chunk might have nothing new but that."""
    joined: list[str] = []
    for piece in pieces:
        if joined and not piece.strip():
            joined[-1] += piece
        else:
            joined.append(piece)
    return joined


def _pieces(text: str, limit: int, size: Size, level: int) -> Iterator[str]:
    """Yield consecutive parts of the text that fit into a chunk, as large ones as there are."""
    if size(text.rstrip()) <= limit:
        if text:
            yield text
    elif level == len(_BOUNDS):
        yield from _characters(text, limit, size)
    else:
        for part in _split(text, _BOUNDS[level]):
            yield from _pieces(part, limit, size, level + 1)


def _split(text: str, bound: re.Pattern[str]) -> Iterator[str]:
    start = 0
    for match in bound.finditer(text):
        yield text[start : match.end()]
        start = match.end()
    yield text[start:]


def _characters(text: str, limit: int, size: Size) -> Iterator[str]:
    """Yield parts of a word that is too long; `limit` characters are never larger than the limit."""
    while text:
        end = limit
        # Doubling measures a long word in few steps; character by character would take quadratic time.
        while end < len(text) and size(text[: end * 2]) <= limit:
            end *= 2
        yield text[:end]
        text = text[end:]


def _end_of_chunk(pieces: list[str], start: int, limit: int, size: Size) -> int:
    """Return where the chunk that starts here ends: each piece that still fits belongs to it."""
    end, used = start, 0
    while end < len(pieces):
        # At least one piece, or the caller's loop would never end; white space at the end is stripped later.
        if end > start and used + size(pieces[end].rstrip()) > limit:
            break
        used += size(pieces[end])
        end += 1
    return end


def _start_of_next(pieces: list[str], start: int, end: int, limit: int, overlap: int, size: Size) -> int:
    """Return where the next chunk starts: as far back as the overlap allows, with something new in it."""
    following = size(pieces[end].rstrip())
    first, used = end, 0
    # Never back to `start`: each chunk begins later than the one before it.
    while first - 1 > start:
        used += size(pieces[first - 1])
        if used > overlap or used + following > limit:
            break
        first -= 1
    return first


def _sections(text: str) -> Iterator[tuple[tuple[str, ...], str, bool]]:
    """Yield the path of headings and the text below it, and whether a deeper heading follows."""
    path: list[tuple[int, str]] = []
    body: list[str] = []
    for level, title, line in _find_headings(text):
        if level == 0:
            body.append(line)
            continue
        yield _titles(path), "".join(body), bool(path) and level > path[-1][0]
        path = [*(entry for entry in path if entry[0] < level), (level, title)]
        body = []
    yield _titles(path), "".join(body), False


def _titles(path: list[tuple[int, str]]) -> tuple[str, ...]:
    return tuple(title for _, title in path if title)


def _find_headings(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield each line with the level of its heading, 0 where it is none; code is not a heading."""
    fence = ""
    for line in text.splitlines(keepends=True):
        bare = line.rstrip("\r\n")
        opened = _FENCE.match(bare)
        if fence:
            # CommonMark: a fence is closed by one of the same sign, at least as long, with nothing after it.
            if opened and opened[1].startswith(fence) and not bare.strip(" `~"):
                fence = ""
            yield 0, "", line
            continue
        fence = opened[1] if opened else ""
        heading = _HEADING.fullmatch(bare)
        yield (len(heading[1]), (heading[2] or "").strip(), line) if heading else (0, "", line)
