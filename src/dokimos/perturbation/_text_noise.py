"""Noise in a text: each function returns it changed by a seed, None where it cannot be changed."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random
from typing import Final

from dokimos.perturbation._kinds import PerturbationKind

_WORD: Final = re.compile(r"[^\W\d_]{4,}")
_IDENTIFIER: Final = re.compile(r"[@/\\_#=]|[^\W\d_]\.[^\W\d_]|[A-Za-z]-?[0-9]|[0-9]-?[A-Za-z]")
"""What shows that a word is an address, a path or a number of something: with a typo it means another one."""
_WORDS_PER_TYPO: Final = 6
_ROWS: Final = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_STANDALONE_SIGN: Final = re.compile(r"(?<=\w)[,;:!?.]+(?=\s|$)")
_BLANK: Final = re.compile(r"(?<=\S) (?=\S)")
_SHARE_OF_BLANKS: Final = 0.3


def add_typos(text: str, random: Random) -> str | None:
    """Misspell about one of six words; digits, short words, addresses and the order of words stay."""
    tokens = (token for token in re.finditer(r"\S+", text) if not _IDENTIFIER.search(token[0]))
    words = [word for token in tokens for word in _WORD.finditer(text, *token.span())]
    if not words:
        return None
    count = max(1, len(words) // _WORDS_PER_TYPO)
    parts, end = [], 0
    for match in sorted(random.sample(words, count), key=lambda one: one.start()):
        parts += [text[end : match.start()], _misspell(match[0], random)]
        end = match.end()
    return "".join([*parts, text[end:]])


def change_case(text: str, random: Random) -> str | None:
    """Write the text in another case."""
    forms = [form for form in dict.fromkeys((text.upper(), text.lower(), text.swapcase())) if form != text]
    return random.choice(forms) if forms else None


def change_blanks(text: str, random: Random) -> str | None:
    """Double some blanks or break lines there, and put blanks around the text."""
    if not text.strip():
        return None
    changed = _BLANK.sub(
        lambda match: random.choice(("  ", "\n", "\t")) if random.random() < _SHARE_OF_BLANKS else " ", text
    )
    return random.choice((f"  {changed}", f"{changed}\n\n", f"\n {changed} "))


def change_punctuation(text: str, random: Random) -> str | None:
    """Leave the signs at the ends of words out, or write more of the last one."""
    stripped = text.rstrip()
    if not stripped:
        return None
    last = stripped[-1]
    forms = [_STANDALONE_SIGN.sub("", stripped), stripped.rstrip(".!?")]
    forms += [f"{stripped}{last * 2}"] if last in ".!?" else [f"{stripped} ...", f"{stripped}!"]
    forms = [form for form in dict.fromkeys(forms) if form.strip() and form != text]
    return random.choice(forms) if forms else None


TEXT_NOISE: Final[dict[PerturbationKind, Callable[[str, Random], str | None]]] = {
    PerturbationKind.TYPOS: add_typos,
    PerturbationKind.CASE: change_case,
    PerturbationKind.WHITESPACE: change_blanks,
    PerturbationKind.PUNCTUATION: change_punctuation,
}


def _misspell(word: str, random: Random) -> str:
    # Not the first letter: people seldom mistype it, and readers need it most.
    place = random.randrange(1, len(word) - 1)
    letter, following = word[place], word[place + 1]
    typos = [f"{letter}{letter}{following}", following]
    if letter != following:
        typos.append(f"{following}{letter}")
    typos += [f"{near}{following}" for near in _neighbours(letter)]
    return f"{word[:place]}{random.choice(typos)}{word[place + 2 :]}"


def _neighbours(letter: str) -> list[str]:
    """Return the keys beside that of a letter, in its case; none for letters that the keyboard lacks."""
    small = letter.lower()
    for row in _ROWS:
        place = row.find(small)
        if place >= 0:
            near = [row[i] for i in (place - 1, place + 1) if 0 <= i < len(row)]
            return [one.upper() for one in near] if letter.isupper() else near
    return []
