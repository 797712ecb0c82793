"""WordNet's synonyms, read straight from its database files: no copy, no index to build, any thread.

The files are those of Princeton's database (`data.noun`, `index.noun`, `noun.exc` and so on), which NLTK,
Debian, Homebrew and others distribute. They are mapped into memory, and indexes are searched by bisection.
"""

from __future__ import annotations

import mmap
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final, TypeAlias
from zipfile import BadZipFile, ZipFile

from dokimos.errors import ConfigurationError

Content: TypeAlias = bytes | mmap.mmap

# What a word's ending becomes in its base form, for each part of speech (WordNet's "morphy").
_ENDINGS: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "noun": (
        ("s", ""), ("ses", "s"), ("ves", "f"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh"),
        ("men", "man"), ("ies", "y"),
    ),
    "verb": (
        ("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", ""),
    ),
    "adj": (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
    "adv": (),
}  # fmt: skip
_MARKER: Final = re.compile(r"\([^()]*\)$")  # as in "ready_to_hand(p)": where an adjective may stand

_SYSTEM_FOLDERS: Final = (
    "/usr/share/wordnet",
    "/usr/share/wordnet/dict",
    "/usr/share/wordnet-3.1/dict",
    "/usr/share/wordnet-3.0/dict",
    "/usr/local/share/wordnet",
    "/usr/local/share/wordnet/dict",
    "/usr/local/WordNet-3.1/dict",
    "/usr/local/WordNet-3.0/dict",
    "/opt/homebrew/opt/wordnet/dict",
    "/usr/local/opt/wordnet/dict",
    "/home/linuxbrew/.linuxbrew/opt/wordnet/dict",
    "/opt/local/share/WordNet-3.0/dict",
    r"C:\Program Files\WordNet\3.0\dict",
    r"C:\Program Files (x86)\WordNet\2.1\dict",
)


@dataclass(frozen=True, slots=True)
class Lemma:
    """One word of a `Synset`, as NLTK's METEOR asks for it."""

    word: str

    def name(self) -> str:
        return self.word


@dataclass(frozen=True, slots=True)
class Synset:
    """Words of one meaning, as NLTK's METEOR asks for them."""

    words: tuple[str, ...]

    def lemmas(self) -> tuple[Lemma, ...]:
        return tuple(Lemma(word) for word in self.words)


class NoSynonyms:
    """A WordNet that knows nothing."""

    def synsets(self, word: str) -> tuple[Synset, ...]:
        return ()


class WordNet:
    """The synonyms of English words and of their inflected forms; the same as NLTK's reader finds."""

    def __init__(self, read: Callable[[str], Content]) -> None:
        """`read` returns the content of a database file, given its name."""
        self._parts = tuple(_PartOfSpeech(name, read) for name in _ENDINGS)
        self.synsets: Callable[[str], tuple[Synset, ...]] = lru_cache(maxsize=20_000)(self._synsets)

    def _synsets(self, word: str) -> tuple[Synset, ...]:
        return tuple(synset for part in self._parts for synset in part.synsets(word.lower()))


class _PartOfSpeech:
    """The nouns, verbs, adjectives or adverbs of WordNet."""

    def __init__(self, name: str, read: Callable[[str], Content]) -> None:
        self._endings = _ENDINGS[name]
        self._index = read(f"index.{name}")
        self._data = read(f"data.{name}")
        lines = (line.split() for line in bytes(read(f"{name}.exc")).decode().splitlines())
        self._exceptions = {word: base_forms for word, *base_forms in filter(None, lines)}

    def synsets(self, word: str) -> Iterator[Synset]:
        for form in dict.fromkeys([word, *self._base_forms(word)]):
            for offset in self._offsets(form):
                yield self._synset(offset)

    def _base_forms(self, word: str) -> Sequence[str]:
        irregular = self._exceptions.get(word)
        if irregular is not None:
            return irregular
        return [word[: -len(old)] + new for old, new in self._endings if word.endswith(old)]

    def _offsets(self, lemma: str) -> list[int]:
        """Look up where a base form's meanings are: a line counts them third and lists them last."""
        columns = _line_of(self._index, lemma.encode("utf-8", "surrogatepass")).split()
        return [int(column) for column in columns[-int(columns[2]) :]] if columns else []

    def _synset(self, offset: int) -> Synset:
        """Read a meaning: the fourth column counts its words in hexadecimal; they follow, each with an id."""
        line = self._data[offset : self._data.find(b"\n", offset)].decode()
        columns = line.split()
        words = columns[4 : 4 + 2 * int(columns[3], 16) : 2]
        return Synset(tuple(_MARKER.sub("", word) for word in words))


def _line_of(content: Content, key: bytes) -> bytes:
    """Find the line whose first column is `key` in lines sorted by it; empty if there is none."""
    low, high = 0, len(content)
    while low < high:
        start = content.rfind(b"\n", low, (low + high) // 2) + 1 or low
        end = content.find(b"\n", start, high) + 1 or high
        line = content[start:end]
        first_column = line.partition(b" ")[0]
        if first_column == key:
            # The licence at the top has an empty first column, which sorts before every word.
            return line if key else b""
        if first_column < key:
            low = end
        else:
            high = start
    return b""


@lru_cache(maxsize=1)
def load_wordnet() -> WordNet:
    """Open the first WordNet found in the usual places, once per process.

    These are, in order: the folders of the environment variables WNSEARCHDIR and WNHOME, NLTK's data path
    (`corpora/wordnet` or `corpora/wordnet.zip`), and the folders of the usual packages.

    Raises:
        ConfigurationError: when there is none, saying what to install.
    """
    for folder in _folders():
        if (folder / "index.noun").is_file():
            return _open_database(folder, partial(_map_file, folder))
        archive = folder.with_name(f"{folder.name}.zip")
        if archive.is_file():
            return _open_database(archive, partial(_read_archive, archive))
    raise ConfigurationError(
        "METEOR needs WordNet for synonyms, and there is none in the usual places. Install it "
        "(Debian and Ubuntu: apt-get install wordnet-base; macOS: brew install wordnet; anywhere: "
        "python -m nltk.downloader wordnet), set WNSEARCHDIR to the folder that holds its index.noun, "
        "or turn synonyms off with synonyms=False."
    )


def _folders() -> Iterator[Path]:
    if "WNSEARCHDIR" in os.environ:
        yield Path(os.environ["WNSEARCHDIR"])
    if "WNHOME" in os.environ:
        yield Path(os.environ["WNHOME"], "dict")
    for root in _nltk_path():
        yield Path(root, "corpora", "wordnet")
    yield from map(Path, _SYSTEM_FOLDERS)


def _nltk_path() -> list[str]:
    """NLTK's data path; its default is repeated here because importing NLTK takes seconds."""
    loaded: Any = sys.modules.get("nltk.data")
    if loaded is not None:
        return [root for root in loaded.path if root]
    roots = [root for root in os.environ.get("NLTK_DATA", "").split(os.pathsep) if root]
    prefixes = [sys.prefix, "/usr", "/usr/local"]
    roots += ["~/nltk_data", f"{sys.prefix}/nltk_data"]
    roots += [f"{prefix}/{folder}/nltk_data" for prefix in prefixes for folder in ("share", "lib")]
    roots += [os.path.join(os.environ.get("APPDATA", "C:\\"), "nltk_data")] if os.name == "nt" else []
    return [os.path.expanduser(root) for root in roots]


def _open_database(path: Path, read: Callable[[str], Content]) -> WordNet:
    try:
        return WordNet(read)
    except (OSError, KeyError, ValueError, BadZipFile) as error:
        raise ConfigurationError(
            f"The WordNet in {path} cannot be read ({error}). "
            "Install it again, or set WNSEARCHDIR to another one."
        ) from error


def _map_file(folder: Path, name: str) -> Content:
    with (folder / name).open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _read_archive(archive: Path, name: str) -> Content:
    with ZipFile(archive) as files:
        return files.read(f"wordnet/{name}")
