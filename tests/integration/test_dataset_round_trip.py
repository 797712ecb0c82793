"""A data set that is pushed to a server comes back as it was: ids, values and their types, and the order."""

import json
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dokimos import Dataset, Example
from dokimos._cli.main import run_command
from dokimos.client import _datasets
from dokimos.client._datasets import push_dataset

WHOLE = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
"""Characters that names can have."""
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(WHOLE, max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
MAPS = st.dictionaries(
    st.text(WHOLE, max_size=6) | st.sampled_from(["tags", "id", "input"]), VALUES, max_size=3
)
IDS = st.none() | st.text(WHOLE, min_size=1, max_size=20) | st.uuids().map(str)
EXAMPLES = st.builds(lambda i, e, m, id: Example(i, e, metadata=m, id=id), MAPS, MAPS, MAPS, IDS)
DATASETS = st.lists(EXAMPLES, min_size=1, max_size=6).filter(
    lambda rows: len(named := [row.id for row in rows if row.id]) == len(set(named))
)


@pytest.fixture(autouse=True)
def server(live_server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DOKIMOS_SERVER_URL", live_server)
    monkeypatch.delenv("DOKIMOS_API_KEY", raising=False)
    return live_server


def exact(example):
    """What JSON tells apart and Python does not: 1, 1.0 and true; and the order of keys."""
    return json.dumps([example.inputs, example.expected_outputs, example.metadata])


@settings(
    max_examples=200 if "DOKIMOS_LONG_TESTS" in os.environ else 25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(first=DATASETS, second=DATASETS, limit=st.sampled_from([0, _datasets.MOST_JSON_BYTES]))
def test_what_is_pulled_is_what_was_pushed(first, second, limit):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_datasets, "MOST_JSON_BYTES", limit)  # sent as JSON, or as lines of JSON
        for examples in (first, second):  # the second finds some of its cases in the first
            pushed = push_dataset(Dataset(examples, "round trip"))
            pulled = Dataset.load(f"dataset://round trip@{pushed.version}")

            assert [exact(example) for example in pulled] == [exact(example) for example in examples]
            assert [example.id for example in pulled] == [
                given.id or found.id for given, found in zip(examples, pulled, strict=True)
            ]
            assert len({example.id for example in pulled}) == len(examples)
            again = push_dataset(pulled)
            assert (again.version, again.is_new) == (pushed.version, False)
            loaded_again = Dataset.load("dataset://round trip@latest")
            assert [example.id for example in loaded_again] == [example.id for example in pulled]


def test_ids_of_the_user_are_shown_by_pull_and_diff_and_kept_in_the_copy(
    server, live, tmp_path, capsys, monkeypatch
):
    def push(*rows):
        Dataset([Example.of(*row[:2], id=row[2]) for row in rows], "qa").save("qa.json")
        assert run_command(["datasets", "push", "qa.json"]) == 0

    push(("q1", "yes", "france"), ("q2", "no", None))
    push(("q1, asked otherwise", "yes", "france"), ("q2", "no", None), ("q3", "x", "japan"))
    capsys.readouterr()

    assert run_command(["datasets", "diff", "qa@1", "qa@2"]) == 1
    assert capsys.readouterr().out.splitlines()[:2] == ["+ japan", "~ france: inputs"]
    assert run_command(["datasets", "diff", "qa.json", "qa@2"]) == 0
    assert run_command(["datasets", "pull", "qa"]) == 0
    pulled = [json.loads(line) for line in (tmp_path / "qa.jsonl").read_text().splitlines()]
    assert [pulled[0]["id"], pulled[2]["id"]] == ["france", "japan"]

    loaded = Dataset.load("dataset://qa@2")
    monkeypatch.setattr("dokimos._http.api_client.FIRST_BACKOFF", 0.001)
    monkeypatch.setenv("DOKIMOS_SERVER_URL", "http://127.0.0.1:1")
    with pytest.raises(Exception, match="no copy"):
        Dataset.load("dataset://qa@2")  # the copy is of another server
    monkeypatch.setenv("DOKIMOS_SERVER_URL", server)
    monkeypatch.setattr("dokimos.datasets._remote._ask", _unavailable)
    copy = Dataset.load("dataset://qa@2")
    assert [example.id for example in copy] == [example.id for example in loaded]
    assert [example.id for example in Dataset.stream("dataset://qa@2")] == [e.id for e in loaded]


def _unavailable(*arguments):
    from dokimos.errors import ServerUnavailableError

    raise ServerUnavailableError("no answer")
