"""Texts rewritten by a judge."""

import asyncio
import json
from contextlib import nullcontext

import pytest

from dokimos.errors import BudgetExceededError, JudgeUnavailableError
from dokimos.judges._budget import Budget
from dokimos.judges._protocol import as_judge
from dokimos.optimizer._axes import TextLocation
from dokimos.optimizer._objective import Failure, Measured
from dokimos.optimizer._search_journal import SearchJournal
from dokimos.optimizer._text_writer import ModelWriter
from dokimos.optimizer._trial import Attempt, Candidate, Trial

PLACE = TextLocation(path="p", steps=("p",), text="Answer about ${TOPIC}.\n", max_chars=60)
FAILURES = (
    Failure(case="a", input="2 + 2?", expected="4", reply="five", reasons=("numeric 0.00: 5 is not 4",)),
)
BASE = Trial(
    id=0, candidate=Candidate(texts={"p": PLACE.text}), measured=Measured(loss=0.5, failures=FAILURES)
)


class Model:
    """Criticises, and writes the texts that it is given, one after the other."""

    def __init__(self, *texts):
        self.texts = list(texts)
        self.prompts = []

    def __call__(self, prompt):
        self.prompts.append(prompt)
        if '"advice"' in prompt:
            return json.dumps({"diagnosis": "It is wrong.", "advice": "Be right."})
        text = self.texts.pop(0)
        if isinstance(text, Exception):
            raise text
        return json.dumps({"text": text, "summary": "changed"}) if isinstance(text, str) else "no JSON"


def rewritten(model, *, journal=None, attempts=(), trial=1, writer=None):
    writer = writer or writer_of(model, journal)
    return asyncio.run(writer.rewrite(trial, "p", BASE, attempts))


def writer_of(model, journal=None, location=PLACE):
    return ModelWriter(
        judge=as_judge(model), locations={"p": location}, journal=journal or SearchJournal(None)
    )


def test_a_critic_sees_what_went_badly_and_an_applier_writes_the_text():
    model = Model("Answer on ${TOPIC} rightly.")

    rewrite = rewritten(model, attempts=[Attempt(summary="made it longer", loss=0.75)])

    assert (rewrite.text, rewrite.summary) == ("Answer on ${TOPIC} rightly.\n", "changed")
    critic, applier = model.prompts
    for shown in (
        "2 + 2?",
        "five",
        "5 is not 4",
        "made it longer",
        "0.7500",
        "0.5000",
        "Answer about ${TOPIC}.",
    ):
        assert shown in critic
    for shown in ("Be right.", "at most 60 characters", "${TOPIC}"):
        assert shown in applier


@pytest.mark.parametrize(
    "useless",
    [
        "Answer on ${TOPIC}." + "x" * 60,
        "Answer without it.",
        "Answer on ${TOPIC} and ${KEY}.",
        "  Answer about ${TOPIC}.",
        " ",
        None,
    ],
    ids=["too long", "a variable is lost", "a variable is new", "as before", "empty", "no JSON"],
)
def test_a_text_of_no_use_is_sent_back_once_and_is_no_proposal_after_that(useless):
    repaired = rewritten(Model(useless, "Good ${TOPIC}."))
    given_up = rewritten(Model(useless, useless))

    assert repaired.text == "Good ${TOPIC}.\n"
    assert "could not be used after one repair" in given_up.error


def test_a_text_that_was_tried_before_is_refused():
    model = Model("New ${TOPIC}.", "New ${TOPIC}.", "Newer ${TOPIC}.")
    writer = writer_of(model)

    texts = [rewritten(model, writer=writer, trial=trial).text for trial in (1, 2)]

    assert texts == ["New ${TOPIC}.\n", "Newer ${TOPIC}.\n"]


def test_a_proposal_is_paid_for_once(tmp_path):
    model = Model("New ${TOPIC}.")
    journal = SearchJournal(tmp_path)
    first = rewritten(model, journal=journal)
    journal.close()

    again = rewritten(model, journal=SearchJournal(tmp_path))

    assert again == first
    assert len(model.prompts) == 2


def test_a_judge_that_cannot_be_reached_ends_the_search_and_is_asked_again_when_it_goes_on(tmp_path):
    journal = SearchJournal(tmp_path)

    with pytest.raises(JudgeUnavailableError):
        rewritten(Model(JudgeUnavailableError("down")), journal=journal)

    assert journal.get("text-1") is None
    journal.close()


def test_nothing_is_asked_where_nothing_may_be_spent():
    model = Model("New ${TOPIC}.")
    writer = writer_of(model)

    def refuse(step, at_once):
        raise BudgetExceededError("spent")

    writer.share = refuse

    with pytest.raises(BudgetExceededError):
        rewritten(model, writer=writer)
    assert model.prompts == []


def test_the_text_of_a_file_may_say_anything(tmp_path):
    location = TextLocation(
        path="p", steps=("instructions", "file"), text="Old.", file=tmp_path / "p.md", named="p.md"
    )
    model = Model("Write ${THIS} and $${that}.")

    assert (
        rewritten(model, writer=writer_of(model, location=location)).text == "Write ${THIS} and $${that}.\n"
    )


def test_critic_and_applier_are_replayed_from_the_cassette_that_the_environment_names(tmp_path, monkeypatch):
    monkeypatch.setenv("DOKIMOS_CASSETTE", str(tmp_path / "calls.jsonl"))
    model = Model("Answer on ${TOPIC} rightly.")

    def ask(prompt):
        return model(prompt)

    recorded = rewritten(ask)
    monkeypatch.setenv("DOKIMOS_CASSETTE_MODE", "replay")
    replayed = rewritten(ask)

    assert replayed.text == recorded.text == "Answer on ${TOPIC} rightly.\n"
    assert len(model.prompts) == 2


def test_a_budget_that_ends_between_critic_and_applier_counts_what_was_asked(tmp_path):
    model = Model("New ${TOPIC}.")
    journal = SearchJournal(tmp_path)
    writer = writer_of(model, journal)
    writer.share = lambda step, at_once: nullcontext(Budget(max_calls=1))

    with pytest.raises(BudgetExceededError):
        rewritten(model, writer=writer)

    assert len(model.prompts) == 1
    assert [cut["calls"] for cut in journal.outcomes("cut-text-1")] == [1]
    assert "text-1" not in journal
