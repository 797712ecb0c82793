"""WordNet is found in the usual places and read as NLTK reads it."""

from __future__ import annotations

import random
import shutil
import sys
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from dokimos.errors import ConfigurationError
from dokimos.evaluators._nlp import wordnet
from dokimos.evaluators._nlp.wordnet import WordNet, load_wordnet

HEADER = "  1 A licence stands here  \n"
PARTS = ("noun", "verb", "adj", "adv")


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No WordNet in any usual place, and none remembered."""
    monkeypatch.setattr(wordnet, "_SYSTEM_FOLDERS", ())
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    monkeypatch.setitem(sys.modules, "nltk.data", None)
    for name in ("WNSEARCHDIR", "WNHOME", "NLTK_DATA"):
        monkeypatch.delenv(name, raising=False)
    load_wordnet.cache_clear()
    yield
    load_wordnet.cache_clear()


def write_wordnet(folder: Path) -> Path:
    """Write a WordNet of four meanings, with an irregular plural and an adjective that has a marker."""
    folder.mkdir(parents=True)
    meanings = {
        "noun": [["car", "auto", "motor_car"], ["mouse"]],
        "verb": [["chase", "pursue"]],
        "adj": [["ready", "prepared(p)"]],
        "adv": [],
    }
    for part in PARTS:
        data, index = HEADER, {}
        for words in meanings[part]:
            listed = " ".join(f"{word} 0" for word in words)
            for word in words:
                index.setdefault(word.partition("(")[0], []).append(len(data))
            data += f"{len(data):08} 00 {part[0]} {len(words):02x} {listed} 000 | a meaning  \n"
        lines = [
            f"{word} {part[0]} {len(at)} 1 @ {len(at)} 0 {' '.join(f'{o:08}' for o in at)}  \n"
            for word, at in sorted(index.items())
        ]
        (folder / f"data.{part}").write_text(data)
        (folder / f"index.{part}").write_text(HEADER + "".join(lines))
        (folder / f"{part}.exc").write_text("mice mouse\n" if part == "noun" else "\n")
    return folder


def synonyms(net: WordNet, word: str) -> set[str]:
    return {lemma.name() for synset in net.synsets(word) for lemma in synset.lemmas()}


def test_words_of_one_meaning_are_synonyms(monkeypatch, tmp_path):
    monkeypatch.setenv("WNSEARCHDIR", str(write_wordnet(tmp_path / "dict")))
    net = load_wordnet()
    assert synonyms(net, "auto") == {"car", "auto", "motor_car"}
    assert synonyms(net, "Pursued") == {"chase", "pursue"}
    assert synonyms(net, "mice") == {"mouse"}
    assert synonyms(net, "prepared") == {"ready", "prepared"}


@pytest.mark.parametrize("word", ["", "1", "zebra", "aardvark", "cars ", "été", "\ud800", "a\nb"])
def test_an_unknown_word_has_no_synonyms(word, monkeypatch, tmp_path):
    monkeypatch.setenv("WNSEARCHDIR", str(write_wordnet(tmp_path / "dict")))
    assert synonyms(load_wordnet(), word) == set()


def in_wnhome(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_wordnet(tmp_path / "WordNet" / "dict")
    monkeypatch.setenv("WNHOME", str(tmp_path / "WordNet"))


def in_nltk_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_wordnet(tmp_path / "data" / "corpora" / "wordnet")
    monkeypatch.setenv("NLTK_DATA", str(tmp_path / "data"))


def in_the_home_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    write_wordnet(tmp_path / "home" / "nltk_data" / "corpora" / "wordnet")


def on_the_path_of_a_loaded_nltk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_wordnet(tmp_path / "own" / "corpora" / "wordnet")
    monkeypatch.setitem(sys.modules, "nltk.data", SimpleNamespace(path=[str(tmp_path / "own")]))


def in_an_archive_of_nltk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = write_wordnet(tmp_path / "unpacked")
    (tmp_path / "data" / "corpora").mkdir(parents=True)
    with zipfile.ZipFile(tmp_path / "data" / "corpora" / "wordnet.zip", "w") as archive:
        for file in folder.iterdir():
            archive.write(file, f"wordnet/{file.name}")
    monkeypatch.setenv("NLTK_DATA", str(tmp_path / "data"))


def in_a_system_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(wordnet, "_SYSTEM_FOLDERS", (str(write_wordnet(tmp_path / "system")),))


@pytest.mark.parametrize(
    "place",
    [
        in_wnhome, in_nltk_data, in_the_home_folder, on_the_path_of_a_loaded_nltk, in_an_archive_of_nltk,
        in_a_system_folder,
    ],
)  # fmt: skip
def test_it_is_found(place: Callable[[pytest.MonkeyPatch, Path], None], monkeypatch, tmp_path):
    place(monkeypatch, tmp_path)
    assert "auto" in synonyms(load_wordnet(), "cars")


def test_where_it_is_missing_the_error_says_what_to_install():
    with pytest.raises(ConfigurationError, match=r"apt-get install wordnet-base.*brew.*nltk.*synonyms=False"):
        load_wordnet()


def test_one_that_is_installed_later_is_found(monkeypatch, tmp_path):
    with pytest.raises(ConfigurationError):
        load_wordnet()
    monkeypatch.setenv("WNSEARCHDIR", str(write_wordnet(tmp_path / "dict")))
    assert load_wordnet() is load_wordnet()


def test_an_incomplete_one_is_named(monkeypatch, tmp_path):
    folder = write_wordnet(tmp_path / "dict")
    (folder / "data.verb").unlink()
    monkeypatch.setenv("WNSEARCHDIR", str(folder))
    with pytest.raises(ConfigurationError, match=r"The WordNet in .*dict cannot be read .*data\.verb"):
        load_wordnet()


def test_many_threads_read_the_same(monkeypatch, tmp_path):
    monkeypatch.setenv("WNSEARCHDIR", str(write_wordnet(tmp_path / "dict")))
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: frozenset(synonyms(load_wordnet(), "car")), range(200)))
    assert set(found) == {frozenset({"car", "auto", "motor_car"})}


DEBIAN = Path("/usr/share/wordnet")
NLTK_LEXNAMES = 45


@pytest.fixture
def nltk_reader(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """NLTK's own reader over a copy of the system's files: it refuses files outside its data path."""
    if not (DEBIAN / "index.noun").is_file() or not (DEBIAN / "cntlist.rev").is_file():
        pytest.skip("no WordNet in the system's folder; install wordnet-base and wordnet-sense-index")
    monkeypatch.undo()
    import nltk.data
    from nltk.corpus.reader.wordnet import WordNetCorpusReader

    class Reader(WordNetCorpusReader):
        def map_wn(self, version: str = "wordnet") -> None:
            return None

    root = tmp_path / "corpora" / "wordnet"
    root.mkdir(parents=True)
    for name in Reader._FILES:
        if (DEBIAN / name).is_file():
            shutil.copy(DEBIAN / name, root / name)
    (root / "lexnames").write_text("".join(f"{n:02}\tname{n}\t1\n" for n in range(NLTK_LEXNAMES)))
    monkeypatch.setattr(nltk.data, "path", [*nltk.data.path, str(tmp_path)])
    return Reader(str(root), omw_reader=WordNetCorpusReader)


@pytest.mark.wordnet
def test_it_finds_what_nltk_finds(nltk_reader):
    net = WordNet(lambda name: (DEBIAN / name).read_bytes())
    for word in some_words():
        theirs = sorted(tuple(lemma.name() for lemma in s.lemmas()) for s in nltk_reader.synsets(word))
        ours = sorted(synset.words for synset in net.synsets(word))
        assert ours == theirs, word


def some_words() -> list[str]:
    rng = random.Random(3)
    words = [
        "a",
        "A.D.",
        "'hood",
        ".22",
        "AIDS",
        "zymurgy",
        "better",
        "men",
        "axes",
        "flies",
        "dying",
        "nope",
    ]
    for part in PARTS:
        lemmas = [line.split()[0] for line in (DEBIAN / f"index.{part}").read_text().splitlines()]
        words += rng.sample(lemmas, 300)
        words += [rng.choice(lemmas) + rng.choice(["s", "es", "ed", "ing", "er", "est"]) for _ in range(200)]
        words += [f"{lemma[:-3]}men" for lemma in lemmas if lemma.endswith("man")]
        irregular = [line.split()[0] for line in (DEBIAN / f"{part}.exc").read_text().splitlines()]
        words += rng.sample(irregular, min(len(irregular), 200))
    return words
