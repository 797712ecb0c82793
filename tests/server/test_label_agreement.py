"""How far reviewers agree on labels: the figures of the library, for each version of a label."""

from random import Random

import pytest
from tests.server.test_access import make_key
from tests.server.test_alignment import ADMIN, alignment, score, start

from dokimos.stats import krippendorff_alpha, krippendorff_alpha_interval

TONES = ("kind", "plain", "rude")
DEFINED = {
    "tone": {"kind": "choice", "choices": TONES},
    "stars": {"kind": "number"},
    "why": {"kind": "text"},
    "safe": {"kind": "verdict"},
}


class Review:
    """A run of items without labels, and three people who review it."""

    def __init__(self, api, count):
        self.api = api
        self.run, self.items = start(api, [[score("correct", True)]] * count, ADMIN)
        self.people = [make_key(api) for _ in range(3)]
        for name, body in DEFINED.items():
            self.define(name, body)

    def define(self, name, body):
        answer = self.api.put(f"/api/v1/projects/chat/label-schemas/{name}", json=body, headers=ADMIN)
        assert answer.status_code == 200, answer.text

    def give(self, person, item, **labels):
        path = f"/api/v1/runs/{self.run}/items/{self.items[item]}/review"
        body = {"verdict": "CORRECT", "labels": labels}
        answer = self.api.put(path, json=body, headers=self.people[person])
        assert answer.status_code == 200, answer.text

    def measure(self, headers=ADMIN):
        return alignment(self.api, self.run, headers)["labels"]


@pytest.fixture
def review(serve):
    return lambda count: Review(serve(api_key="admin-key"), count)


def expected(units, level):
    interval = krippendorff_alpha_interval(units, level=level)
    low_and_high = {"low": pytest.approx(interval.low), "high": pytest.approx(interval.high)}
    return {
        "itemCount": len(units),
        "alpha": pytest.approx(krippendorff_alpha(units, level=level)),
        "alphaInterval": low_and_high,
    }


def test_agreement_on_choices_and_numbers_is_that_of_the_library(review):
    random, here = Random(3), review(12)
    tones, stars = [], []
    for item in range(12):
        people = range(3) if item % 3 else range(item % 2, 2)
        own_tones = [random.choice(TONES[: 2 + item % 2]) for _ in people]
        own_stars = [item + random.choice((0, 0.5, 2)) for _ in people]
        for person, tone, number in zip(people, own_tones, own_stars, strict=True):
            here.give(person, item, tone=tone, stars=number, why="Because.")
        if len(people) > 1:
            tones.append(own_tones)
            stars.append(own_stars)
    assert here.measure() == [
        {"label": "stars", "version": 1, "kind": "number", "reviewerCount": 3, **expected(stars, "interval")},
        {"label": "tone", "version": 1, "kind": "choice", "reviewerCount": 3, **expected(tones, "nominal")},
    ]
    assert 0 < len(tones) < 12


def test_versions_of_a_label_are_not_compared_with_one_another(review):
    here = review(4)
    for item, tone in enumerate(("kind", "rude", "kind")):
        here.give(0, item, tone=tone)
        here.give(1, item, tone=tone)
    here.define("tone", {"kind": "choice", "choices": ["warm", "cold"]})
    here.give(1, 0, tone="cold")
    here.give(2, 3, tone="warm")
    old, new = here.measure()
    assert [old["version"], old["itemCount"], old["reviewerCount"], old["alpha"]] == [1, 2, 2, 1.0]
    assert [new["version"], new["itemCount"], new["reviewerCount"], new["alpha"]] == [2, 0, 0, None]
    assert new["alphaInterval"] is None
    retired = here.api.delete("/api/v1/projects/chat/label-schemas/tone", headers=ADMIN)
    assert retired.status_code == 204
    assert here.measure() == [old, new]


def test_who_is_unsure_of_a_label_says_nothing_of_it(review):
    here = review(3)
    units = [("CORRECT", "CORRECT"), ("INCORRECT", "CORRECT"), ("INCORRECT", "INCORRECT")]
    for item, verdicts in enumerate(units):
        for person, verdict in enumerate(verdicts):
            here.give(person, item, safe=verdict)
        here.give(2, item, safe="UNSURE")
    [safe] = here.measure()
    assert safe["reviewerCount"] == 2
    assert {name: safe[name] for name in ("itemCount", "alpha", "alphaInterval")} == expected(
        units, "nominal"
    )


@pytest.mark.parametrize("unit", [1.7e308, 1e-200, 10**300])
def test_numbers_of_any_size_are_compared(review, unit):
    """The square of such a number is too large, or too small, for a float."""
    here = review(3)
    units = [(1, 1), (-1, -0.5), (0, 0)]
    for item, values in enumerate(units):
        for person, value in enumerate(values):
            here.give(person, item, stars=value * unit)
    [stars] = here.measure()
    assert stars["alpha"] == pytest.approx(krippendorff_alpha(units, level="interval"))
    assert -1 <= stars["alphaInterval"]["low"] < stars["alphaInterval"]["high"] <= 1


def test_a_number_that_all_give_has_no_alpha(review):
    here = review(2)
    for item in range(2):
        for person in range(2):
            here.give(person, item, stars=0)
    [stars] = here.measure()
    assert (stars["itemCount"], stars["alpha"], stars["alphaInterval"]) == (2, None, None)


def test_labels_that_a_blind_review_hides_do_not_count(review):
    here = review(3)
    settings = {"blindReview": True}
    assert here.api.patch("/api/v1/projects/chat/settings", json=settings, headers=ADMIN).status_code == 200
    for item, tone in enumerate(("kind", "rude", "kind")):
        here.give(0, item, tone=tone)
        here.give(1, item, tone=tone)
    assert here.measure(here.people[2]) == []
    here.give(2, 1, tone="kind")
    assert [each["itemCount"] for each in here.measure(here.people[2])] == [1]
    assert [each["itemCount"] for each in here.measure()] == [3]
