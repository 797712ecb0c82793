"""What other answers of a run hold, from which faults take names, labels, tools and arguments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from dokimos._core.agent import ToolCall
from dokimos._core.jsonable import text_form

_WORD: Final = re.compile(r"[^\W\d_][\w'’-]*")
_SENTENCE_ENDS: Final = ".!?:\n。！？"
_OPENING: Final = " \t\"'“„«(*#-"
"""What may stand between the end of a sentence and the first word of the next one."""
_AROUND_WORDS: Final = ".,;:!?\"'“”‘’„«»*_`()。、，！？؟،؛।"
_LONGEST_LABEL: Final = 3
"""Words of an answer that is taken for a label or a name as a whole."""
_LONGEST_LABEL_TEXT: Final = 60
_MOST_SEARCHED: Final = 20_000
"""Characters of an answer in which names are looked for."""
_MOST_KEPT: Final = 2_000
"""Names of a run that are enough to choose from."""
_STARTER_WORDS: Final = """
    a about according after all also although an and any are as at based because before both but by can could
    despite did do does due each first for from given he her here his how however i if in instead is it its
    let many may more most my next no not of on one only or our over please second she should since so some
    sorry such sure thank that the their then there therefore these they this those though to under
    unfortunately until use we what when where which while who why will with would yes yet you your
    das der die ein eine er es ich ja nein sie wir el elle il la las le les los un une
"""
_STARTERS: Final = frozenset(_STARTER_WORDS.split())
"""Words that are written with a capital at the start of a sentence and are not names."""
_SPARE_NAMES: Final = ("Lisbon", "Miller", "Acme Corporation", "Oslo")
"""Names for a run whose answers hold no others."""
_SPARE_TOOL: Final = "unknown_tool"


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Names, short answers, tools and arguments of the answers of a run, sorted."""

    names: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    arguments: Mapping[tuple[str, str], tuple[Any, ...]] = field(default_factory=dict)
    """The values of each argument of each tool, by the names of both."""

    @classmethod
    def of(cls, texts: Iterable[str], calls: Iterable[ToolCall], tools: Iterable[str] = ()) -> Self:
        """Collect what texts and calls hold."""
        names: set[str] = set()
        labels: set[str] = set()
        for text in texts:
            if is_label(text):
                labels.add(text.strip())
            if len(names) < _MOST_KEPT:
                names.update(text[start:end] for start, end in find_names(text))
        called = list(calls)
        values: dict[tuple[str, str], dict[str, Any]] = {}
        for call in called:
            for name, value in call.arguments.items():
                values.setdefault((call.name, name), {})[text_form(value) or ""] = value
        return cls(
            tuple(sorted(names)),
            tuple(sorted(labels)),
            tuple(sorted({*tools, *(call.name for call in called)})),
            {key: tuple(value for _, value in sorted(found.items())) for key, found in values.items()},
        )

    def other_names(self, name: str, text: str) -> list[str]:
        """Return names that stand neither for this one nor in the text, as far as there are some."""
        folded, whole = name.casefold(), text.casefold()
        others = [one for one in self.names if one.casefold() != folded]
        foreign = [one for one in others if one.casefold() not in whole]
        return foreign or [one for one in _SPARE_NAMES if one.casefold() not in whole] or others

    def other_labels(self, label: str) -> list[str]:
        """Return the other short answers; "Rome." and "rome" are the same one."""
        folded = fold(label)
        return [one for one in self.labels if fold(one) != folded]

    def other_tools(self, name: str, available: Iterable[str]) -> list[str]:
        """Return other tools: those that the agent has, else those that were called, else an unknown one."""
        for tools in (sorted(set(available)), self.tools):
            others = [tool for tool in tools if tool != name]
            if others:
                return others
        return [_SPARE_TOOL]

    def other_values(self, tool: str, argument: str, value: Any) -> list[Any]:
        """Return values that other calls gave this argument."""
        return [one for one in self.arguments.get((tool, argument), ()) if one != value]


def fold(text: str) -> list[str]:
    """Return the words of a text without what makes no fault: white space, case, and signs around words.

    A text of signs alone stays as it is.
    """
    words = text.casefold().split()
    return [bare for word in words if (bare := word.strip(_AROUND_WORDS))] or words


def is_label(text: str) -> bool:
    """Say whether a text is so short that it is a label or a name as a whole."""
    words = text[:_LONGEST_LABEL_TEXT].split()
    if len(text) > _LONGEST_LABEL_TEXT or not 0 < len(words) <= _LONGEST_LABEL:
        return False
    is_sentence = len(words) > 1 and words[-1].endswith(tuple(_SENTENCE_ENDS))
    return not is_sentence and not any(map(str.isdigit, text))


def find_names(text: str) -> Iterator[tuple[int, int]]:
    """Yield where names stand: words with a capital that do not get it from the start of a sentence.

    Scripts without capitals have none that could be found.
    """
    text = text[:_MOST_SEARCHED]
    words = list(_WORD.finditer(text))
    index = 0
    while index < len(words):
        last = index
        if not _is_name_word(text, words[index]):
            index += 1
            continue
        while last + 1 < len(words) and _continues(text, words[last], words[last + 1]):
            last += 1
        yield words[index].start(), words[last].end()
        index = last + 1


def _is_name_word(text: str, word: re.Match[str]) -> bool:
    if not word[0][0].isupper() or word[0] == "I" or word[0].startswith(("I'", "I’")):
        return False
    if word[0].casefold() in _STARTERS:
        return False
    before = text[max(0, word.start() - 8) : word.start()].rstrip(_OPENING)
    if before and before[-1] not in _SENTENCE_ENDS:
        return True
    # At the start of a sentence every word has a capital: only what a verb follows as its subject is a name.
    after = text[word.end() : word.end() + 40].lstrip().lower()
    return after.startswith(("is ", "was ", "are ", "were ", "has ", "had ", "will ", "and ")) or is_label(
        text
    )


def _continues(text: str, word: re.Match[str], following: re.Match[str]) -> bool:
    """Say whether a word belongs to the name before it."""
    return text[word.end() : following.start()] == " " and following[0][0].isupper()
