"""Collections: built once, searched by meaning, by words and by both."""

import asyncio
import sqlite3

import pytest

from dokimos.errors import ConfigurationError, DocumentError, JudgeReplyError, JudgeUnavailableError
from dokimos.judges._cassette import Cassette
from dokimos.judges._embeddings import FunctionEmbedder
from dokimos.judges._run_scope import RunScope, enter_scope
from dokimos.suites._retrieval import collection as collection_module
from dokimos.suites._retrieval import store
from dokimos.suites._retrieval.collection import Collection, fuse_rankings, open_collection
from dokimos.suites._retrieval.schema import VectorstoreTool
from dokimos.suites._retrieval.store import Found, PassageFile

PETS = {
    "docs/cats.md": "# Cats\n\nCats purr when they are content.\n\n## Food\n\nCats eat fish and chicken.\n",
    "docs/dogs.txt": "Dogs bark at strangers. A dog eats nearly everything.",
    "docs/deep/birds.md": "# Birds\n\nBirds sing in the morning.\n\n## Section 42\n\nOwls hunt at night.\n",
}
KB = VectorstoreTool(name="kb", source="docs")


@pytest.fixture
def pets(library):
    for name, text in PETS.items():
        library.write(name, text)
    return library


def sources(passages):
    return [passage.source for passage in passages]


def test_the_passage_with_the_meaning_of_the_query_comes_first(pets):
    found = pets.search("strangers bark")

    assert found[0].source == "docs/dogs.txt"
    assert found[0].text == PETS["docs/dogs.txt"]
    assert 0 < found[0].score <= 1
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)


def test_top_k_and_the_least_score_limit_what_is_found(pets):
    assert len(pets.search("cats eat", top_k=2)) == 2
    assert len(asyncio.run(pets.open().search("cats eat", top_k=1))) == 1
    assert sources(pets.search("owls hunt at night", min_similarity_score=0.5)) == ["docs/deep/birds.md"]
    assert pets.search("quantum chromodynamics", min_similarity_score=0.9) == []


def test_a_blank_query_finds_nothing_and_costs_nothing(pets):
    collection = pets.open()
    asked = len(pets.embedder.texts)

    assert asyncio.run(collection.search(" \n")) == []
    assert len(pets.embedder.texts) == asked


def test_sections_keep_their_headings(pets):
    found = pets.search("fish chicken", type="hierarchical_document")

    assert found[0].headings == ("Cats", "Food")
    assert found[0].text == "Cats > Food\n\nCats eat fish and chicken."


def test_headings_are_searched_with_the_text_unless_that_is_turned_off(pets):
    key = {"type": "hierarchical_document", "search_mode": "semantic", "min_score": 0.3}

    assert [passage.headings for passage in pets.search("food", **key)] == [("Cats", "Food")]
    assert pets.search("food", contextual_embeddings=False, **key) == []


@pytest.mark.parametrize("mode", ["keyword", "exact"])
def test_words_are_found_without_an_embedder(pets, mode):
    found = pets.search("hunt at night", type="hierarchical_document", search_mode=mode, embedder=None)

    assert found[0].headings == ("Birds", "Section 42")
    assert found[0].score == 1.0
    assert pets.embedder.texts == []


def test_the_exact_phrase_must_be_there(pets):
    key = {"type": "hierarchical_document", "search_mode": "exact"}

    assert pets.search("night at hunt", **key) == []
    assert sources(pets.search("Section 42", **key)) == ["docs/deep/birds.md"]


def test_signs_of_the_query_language_of_the_store_mean_nothing(pets):
    key = {"type": "hierarchical_document", "search_mode": "keyword"}

    assert sources(pets.search('"purr" AND (NEAR) * content:', **key))[0] == "docs/cats.md"
    assert pets.search("?!*", **key) == []


def test_words_of_languages_without_spaces_are_found(library):
    library.write("docs/a.md", "# 猫\n\n猫は魚を食べます。")
    library.write("docs/b.md", "# 犬\n\n犬は吠えます。")

    found = library.search("魚", type="hierarchical_document", search_mode="keyword")

    assert sources(found) == ["docs/a.md"]


def test_a_hybrid_search_joins_all_rankings(pets):
    found = pets.search("Owls hunt at night", type="hierarchical_document")

    assert found[0].headings == ("Birds", "Section 42")
    assert found[0].score == pytest.approx(1.0), "it is the first in all three"
    assert found[1].score < 0.8, "it has not the phrase"


def test_rankings_are_joined_by_the_reciprocals_of_their_ranks():
    first = [Found(1, 0.9), Found(2, 0.8)]
    second = [Found(2, 5.0), Found(3, 1.0)]

    joined = fuse_rankings([(0.5, first), (0.5, second)], k=60)

    best = 1 / 61
    assert [each.id for each in joined] == [2, 1, 3]
    assert joined[0].score == pytest.approx((0.5 / 62 + 0.5 / 61) / best)
    assert joined[1].score == pytest.approx(0.5)


def test_without_an_embedder_words_are_searched_with_a_warning(pets):
    for kind in ("vectorstore", "hierarchical_document"):
        collection = pets.open(type=kind, embedder=None)

        assert sources(asyncio.run(collection.search("who barks at strangers")))[0] == "docs/dogs.txt"
        assert collection.warnings == (
            "the tool kb searches by words alone, since no embedder is named; give embedding_model or "
            "embedding_provider.",
        )


def test_words_are_searched_without_an_embedder_whatever_the_weights_say(pets):
    weights = {"semantic_weight": 1, "keyword_weight": 0, "exact_weight": 0}

    found = pets.search("owls", type="hierarchical_document", embedder=None, **weights)

    assert sources(found) == ["docs/deep/birds.md"]


def test_keys_without_effect_are_warned_of(pets):
    collection = pets.open(database={"provider": "qdrant", "url": "http://localhost:6333"})

    assert collection.warnings == ("the tool kb: database has no effect.",)


def test_nothing_is_embedded_twice(pets):
    pets.open()
    asked = list(pets.embedder.texts)
    pets.open()

    assert len(asked) == len(set(asked)) == 3
    assert pets.embedder.texts == asked


def test_only_what_has_changed_is_embedded_anew(pets):
    pets.open()
    pets.embedder.texts.clear()
    pets.write("docs/dogs.txt", "Dogs sleep all day.")

    found = pets.search("dogs sleep")

    assert pets.embedder.texts == ["Dogs sleep all day.", "dogs sleep"]
    assert found[0].text == "Dogs sleep all day."


def test_another_way_of_cutting_is_another_collection(pets):
    paths = {pets.open(chunk_size=size).path for size in (100, 200)}

    assert len(paths) == 2
    assert len(pets.open(chunk_size=30)) > len(pets.open(chunk_size=200))


def test_old_versions_are_forgotten(pets):
    for number in range(6):
        pets.write("docs/dogs.txt", f"Dogs have {number} tails.")
        pets.open().close()

    assert len(list(pets.cache.glob("*.sqlite"))) == collection_module.KEPT_VERSIONS
    assert [path.suffix for path in pets.cache.iterdir() if path.suffix != ".sqlite"] == []


def test_a_broken_build_goes_on_where_it_ended(pets, recorded, monkeypatch):
    monkeypatch.setattr(collection_module, "EMBEDDED_AT_ONCE", 1)
    with pytest.raises(ConnectionError):
        pets.open(embedder=recorded(fails_after=2))
    assert [path.suffix for path in pets.cache.iterdir()] == [".partial"]

    pets.search("bark")

    assert len(pets.embedder.texts) == 2, "the last text and the query"


def test_a_damaged_unfinished_file_is_thrown_away(pets, recorded):
    with pytest.raises(ConnectionError):
        pets.open(embedder=recorded(fails_after=0))
    (unfinished,) = pets.cache.glob("*.partial")
    unfinished.write_bytes(b"nonsense" * 1000)

    assert pets.search("bark")[0].source == "docs/dogs.txt"


def test_an_embedder_that_changes_its_mind_is_found_out(pets):
    class Shorter:
        identity = "words"

        async def embed(self, texts):
            return [[1.0, 2.0] for _ in texts]

    collection = pets.open()
    changed = Collection(collection.block, collection._file, Shorter(), ())

    with pytest.raises(
        ConfigurationError, match="gave 2 numbers for a query, but the collection has vectors of 512"
    ):
        asyncio.run(changed.search("bark"))


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("docs/cats.md", {"docs/cats.md"}),
        ("docs/*.md", {"docs/cats.md"}),
        ("docs/**/*.md", {"docs/cats.md", "docs/deep/birds.md"}),
        ("docs", set(PETS)),
    ],
)
def test_a_source_is_a_file_a_folder_or_a_pattern(pets, source, found):
    pets.write("docs/picture.png", b"\x89PNG")
    pets.write("docs/.hidden/secret.md", "Secret dogs.")

    assert set(sources(pets.search("dogs cats birds", source=source, top_k=100))) == found


def test_files_outside_the_suite_are_named_in_full(library, tmp_path):
    outside = tmp_path / "elsewhere.md"
    outside.write_text("Far away.", encoding="utf-8")

    assert sources(library.search("far away", source=str(outside))) == [outside.as_posix()]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("nowhere", "there is no source .*nowhere"),
        ("empty", "there are no documents in .*empty; files of these kinds are read: .txt"),
        ("*.pdf", "there are no documents in"),
        ("https://example.com/a.pdf", "is a URL; download it"),
        ("blank.md", "there is no text in the source 'blank.md'"),
    ],
)
def test_a_source_without_documents_is_refused(library, source, message):
    (library.path / "empty").mkdir()
    library.write("blank.md", "  \n")

    with pytest.raises(ConfigurationError, match=message):
        library.open(source=source)


def test_a_document_that_cannot_be_read_is_named_and_leaves_nothing_behind(pets):
    pets.write("docs/broken.pdf", b"nonsense")

    with pytest.raises(DocumentError, match=r"broken\.pdf: it cannot be read"):
        pets.open()
    assert list(pets.cache.iterdir()) == []


def test_records_carry_their_fields(library):
    library.write("docs/pets.csv", "id,text,colour\nc1,Cats purr,grey\nd1,Dogs bark,brown\n")

    found = library.search("bark", vector_field="text", id_field="id", meta_fields=["colour"])

    assert found[0].source == "docs/pets.csv#d1"
    assert found[0].text == "Dogs bark\n\ncolour: brown"
    assert found[0].metadata == {"colour": "brown"}


def test_many_who_open_a_collection_at_once_build_it_once(pets):
    async def open_at_once(times):
        keys = {"embedder": pets.embedder, "cache_dir": pets.cache}
        return await asyncio.gather(*(open_collection(KB, pets.path, **keys) for _ in range(times)))

    collections = asyncio.run(open_at_once(8))

    assert len({collection.path for collection in collections}) == 1
    assert len(pets.embedder.texts) == 3


def opened_with(pets, cassette, embedder):
    async def inside():
        enter_scope(RunScope(call_stores=(cassette,), in_flight={}))
        collection = await open_collection(KB, pets.path, embedder=embedder, cache_dir=pets.cache)
        return await collection.search("bark")

    return asyncio.run(inside())


@pytest.mark.parametrize("built_before", [False, True])
def test_a_cassette_replays_a_search_without_embedder_and_cache(pets, recorded, tmp_path, built_before):
    path = tmp_path / "cassette.jsonl"
    if built_before:
        pets.open()
    cassette = Cassette(path, "record")
    found = opened_with(pets, cassette, pets.embedder)
    cassette.save()
    pets.cache = tmp_path / "another machine"

    replayed = opened_with(pets, Cassette(path, "replay"), recorded(fails_after=0))

    assert [(each.text, pytest.approx(each.score, abs=1e-4)) for each in found] == [
        (each.text, each.score) for each in replayed
    ]


def test_a_replay_never_asks_for_what_the_cassette_lacks(pets, recorded, tmp_path):
    path = tmp_path / "cassette.jsonl"
    cassette = Cassette(path, "record")
    opened_with(pets, cassette, pets.embedder)
    cassette.save()
    pets.write("docs/dogs.txt", "Dogs sleep.")

    with pytest.raises(JudgeUnavailableError, match="has no recording of this call of words"):
        opened_with(pets, Cassette(path, "replay"), recorded(fails_after=0))


def test_a_damaged_collection_is_named(pets):
    path = pets.open().path
    path.write_bytes(b"nonsense" * 1000)

    with pytest.raises(ConfigurationError, match=r"\.sqlite cannot be read .*; delete it to build it again"):
        pets.open()


def test_finished_files_cannot_be_written_to(pets):
    file = PassageFile(pets.open().path)

    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        file.fill([1], [[1.0] * 512])
    file.close()


def test_similarity_is_worked_out_in_python_where_the_extension_cannot_be_loaded(pets, monkeypatch):
    usual = {each.text: each.score for each in pets.search("cats bark")}

    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(store, "import_module", missing)

    assert {each.text: each.score for each in pets.search("cats bark")} == pytest.approx(usual, abs=1e-4)


@pytest.mark.skipif(
    not hasattr(sqlite3.Connection, "enable_load_extension"),
    reason="this Python loads no extensions of SQLite",
)
def test_the_extension_is_used_where_it_can_be_loaded(pets):
    database = pets.open()._file._database

    assert database.execute("SELECT vec_version()").fetchone()[0].startswith("v")


def test_halves_of_signs_in_json_are_replaced(library):
    library.write("docs/a.json", '[{"name\\udc00": "cats \\ud800 purr"}]')

    (found,) = library.search("cats")

    assert found.text == "name?: cats ? purr"


def test_a_pattern_is_looked_for_in_a_folder_whose_name_has_signs_of_patterns(library):
    place = library.path / "[a]*"
    place.mkdir()
    (place / "cats.md").write_text("Cats purr.")
    block = VectorstoreTool(name="kb", source="*.md")

    opened = open_collection(block, place, embedder=library.embedder, cache_dir=library.cache)

    assert len(asyncio.run(opened)) == 1


def test_an_answer_that_is_no_list_of_vectors_is_told(library):
    library.write("docs/a.txt", "Cats purr.")

    with pytest.raises(JudgeReplyError, match="gave NoneType, not a list of vectors"):
        library.open(embedder=FunctionEmbedder(lambda texts: None, "nothing"))
