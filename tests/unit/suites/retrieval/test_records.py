"""Records of CSV and JSON files as passages."""

import json

import pytest

from dokimos.errors import DocumentError
from dokimos.suites._retrieval.records import parse_records
from dokimos.suites._retrieval.schema import VectorstoreTool

ROWS = [
    {"id": "a1", "title": "Cats", "content": "They purr.", "year": 2020},
    {"id": "a2", "title": "Dogs", "content": "They bark.", "year": None},
]
TABLE = "id,title,content,year\na1,Cats,They purr.,2020\na2,Dogs,They bark.,\n"


def read(path, **keys):
    return parse_records(path, VectorstoreTool.model_validate({"name": "kb", "source": "x", **keys}))


def lines(rows):
    return "\n".join(json.dumps(row) for row in rows) + "\n\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", TABLE),
        ("a.tsv", TABLE.replace(",", "\t")),
        ("a.csv", TABLE.replace(",", ";")),
        ("a.json", json.dumps(ROWS)),
        ("a.jsonl", lines(ROWS)),
    ],
)
def test_every_form_gives_the_same_records(library, name, content):
    cats, dogs = read(library.write(name, content), vector_field="content", id_field="id")

    assert (cats.id, cats.text) == ("a1", "They purr.")
    assert cats.metadata == {"id": "a1", "title": "Cats", "year": "2020"}
    assert dogs.metadata == {"id": "a2", "title": "Dogs"}


def test_all_fields_are_searched_unless_some_are_named(library):
    first, _ = read(library.write("a.csv", TABLE))

    assert first.text == "id: a1\ntitle: Cats\ncontent: They purr.\nyear: 2020"
    assert (first.id, first.metadata) == ("1", {})


def test_several_fields_are_joined_and_others_carried(library):
    path = library.write("a.json", json.dumps(ROWS))

    first, _ = read(path, vector_field=["title", "content"], field_separator=" - ", meta_fields=["year"])

    assert (first.text, first.metadata) == ("Cats - They purr.", {"year": "2020"})


def test_prefixes_name_the_fields(library):
    path = library.write("a.json", json.dumps(ROWS))

    first, _ = read(path, vector_field="title", record_prefix="pet_", meta_prefix="m_", meta_fields=["id"])

    assert (first.text, first.metadata) == ("pet_title: Cats", {"m_id": "a1"})


def test_the_list_may_be_deep_inside(library):
    path = library.write("a.json", json.dumps({"data": {"items": ROWS}}))

    assert len(read(path, record_path="data.items")) == 2


def test_json_without_a_list_of_objects_is_a_document(library):
    assert read(library.write("a.json", '{"a": 1}')) is None
    assert read(library.write("a.json", "[1, 2]")) is None
    assert read(library.write("a.md", "# A")) is None


def test_records_with_nothing_to_search_are_left_out(library):
    found = read(library.write("a.json", '[{"t": ""}, {"t": null}, {"t": "x"}]'), vector_field="t")

    assert [(record.id, record.text) for record in found] == [("3", "x")]


@pytest.mark.parametrize(
    ("name", "content", "keys", "message"),
    [
        ("a.json", "[{", {}, "it is not JSON"),
        ("a.jsonl", '{"a": 1}\n{', {}, "line 2 is not JSON"),
        ("a.jsonl", "[1]\n", {}, "line 1 is not a JSON object"),
        ("a.json", '{"data": []}', {"record_path": "dta"}, "there is no 'dta'. Did you mean 'data'"),
        ("a.json", '{"data": 1}', {"record_path": "data"}, "there is no list of objects"),
        (
            "a.csv",
            TABLE,
            {"vector_field": "contents"},
            "no record has a field 'contents'. Did you mean 'content'",
        ),
        ("a.csv", TABLE, {"meta_fields": ["age"]}, "no record has a field 'age'"),
        ("a.csv", TABLE, {"id_field": "key"}, "no record has a field 'key'"),
        ("a.csv", 'a\n"' + "x" * 200_000, {}, "cannot be read as CSV"),
    ],
)
def test_what_is_wrong_is_said_with_the_file(library, name, content, keys, message):
    path = library.write(name, content)

    with pytest.raises(DocumentError) as caught:
        read(path, **keys)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
