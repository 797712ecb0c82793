"""The tokens of a template."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from dokimos.importers._promptfoo.nunjucks.values import TemplateRefused

Kind: TypeAlias = Literal["data", "comment", "open", "close", "text", "number", "name", "operator", "end"]

_OPEN: Final = re.compile(r"\{%-?|\{\{-?")
_MARK: Final = re.compile(r"\{%|\{\{|\{#|#\}")
_SPACE: Final = re.compile("[ \n\t\r\u00a0]+")
_CLOSE: Final = re.compile(r"-?%\}|-?\}\}")
_OPERATOR: Final = re.compile(r"===|!==|==|!=|<=|>=|//|\*\*|[()\[\]{}%*\-+~/#,:|.<>=!]")
_WORD: Final = re.compile("[^ \n\t\r\u00a0()\\[\\]{}%*\\-+~/#,:|.<>=!]+")
_NUMBER: Final = re.compile(r"[0-9]+(?:\.[0-9]*)?")
_NAME: Final = re.compile(r"[\w$]+")
_STRING: Final = re.compile(r"\"((?:\\.|[^\"\\])*)\"|'((?:\\.|[^'\\])*)'", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a template."""

    kind: Kind
    value: str
    start: int
    end: int


class Lexer:
    """Reads the tokens of a template one after the other."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self._in_tag = False

    def next(self) -> Token:
        """Return the next token."""
        if self.position >= len(self.text):
            return Token("end", "", self.position, self.position)
        return self._next_in_tag() if self._in_tag else self._next_outside()

    def _take(self, kind: Kind, length: int, value: str | None = None) -> Token:
        start, self.position = self.position, self.position + length
        raw = self.text[start : self.position]
        return Token(kind, raw if value is None else value, start, self.position)

    def _next_outside(self) -> Token:
        if found := _OPEN.match(self.text, self.position):
            self._in_tag = True
            return self._take("open", len(found[0]))
        if self.text.startswith("{#", self.position):
            end = self.text.find("#}", self.position + 2)
            if end < 0:
                raise TemplateRefused("a comment is not closed")
            return self._take("comment", end + 2 - self.position)
        mark = _MARK.search(self.text, self.position)
        if mark is not None and mark[0] == "#}":
            raise TemplateRefused("it closes a comment that is not open")
        return self._take("data", (len(self.text) if mark is None else mark.start()) - self.position)

    def _next_in_tag(self) -> Token:
        text, position = self.text, self.position
        if text[position] in "\"'":
            return self._string()
        if space := _SPACE.match(text, position):
            self.position = space.end()
            return self.next()
        if close := _CLOSE.match(text, position):
            self._in_tag = False
            return self._take("close", len(close[0]))
        if text.startswith("r/", position):
            raise TemplateRefused("it has a regular expression")
        if operator := _OPERATOR.match(text, position):
            return self._take("operator", len(operator[0]))
        return self._word()

    def _word(self) -> Token:
        word = _WORD.match(self.text, self.position)
        if word is None:  # cannot be: spaces, signs and words are all that there is
            raise TemplateRefused("it has a character that is not known")
        number = _NUMBER.match(self.text, self.position)
        if number and len(word[0].rstrip("0123456789")) == 0 and word[0].isascii():
            return self._take("number", len(number[0]))
        if _NAME.fullmatch(word[0]) is None:
            raise TemplateRefused(f"{word[0]!r:.40} is not a name")
        return self._take("name", len(word[0]))

    def _string(self) -> Token:
        found = _STRING.match(self.text, self.position)
        if found is None:
            raise TemplateRefused("a text in quotes is not closed")
        inside = found[1] if found[1] is not None else found[2]
        value = _ESCAPE.sub(lambda escape: _ESCAPES.get(escape[1], escape[1]), inside)
        return self._take("text", len(found[0]), value)
