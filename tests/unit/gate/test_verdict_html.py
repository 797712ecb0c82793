"""A gate's verdict as a page: which guards fired, what to do, and the items with their outputs."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from dokimos.comparison import Snapshot
from dokimos.gate import GateConfig, GateStatus, RegressionGate
from dokimos.gate._decision import Guard, GuardFinding, decide
from dokimos.gate._gate import build_verdict
from dokimos.gate._verdict import GateVerdict

ACCEPT = "DOKIMOS_UPDATE_BASELINE=true pytest tests/test_support.py::test_gate"


class Page(HTMLParser):
    def __init__(self, html):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.text += data


def verdict(before, now, **options):
    config = GateConfig(**options)
    decision = decide(Snapshot.of(before), Snapshot.of(now), config)
    return build_verdict(
        decision, config, name="support", baseline="tests/baselines/support.json", accept_command=ACCEPT
    )


def data_of(html):
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    return json.loads(found[1])


def section(html, title):
    return Page(re.search(rf"<h2>{title}</h2>(.*?)</section>", html, re.DOTALL)[1]).text


@pytest.fixture
def failed(result):
    before = result({"Match": [1] * 20, "Judge": [0.9] * 20}, output="Yes, 28 days.")
    now = result({"Match": [0] * 9 + [1] * 11, "Judge": [0.9] * 20}, output="Yes, 29 days.")
    provenance = replace(now.provenance, run_id="20261123-0101-aaaa")
    return verdict(before, replace(now, provenance=provenance))


def test_the_verdict_is_told_before_anything_else(failed):
    html = failed.to_html()
    heading = Page(html.partition("<header>")[2].partition("</header>")[0]).text

    assert html.index("<header>") < html.index("<section")
    assert "✗ The gate failed · pass rate 100.0 % → 55.0 % (-45 pts)" in heading
    assert "baseline tests/baselines/support.json" in heading


def test_the_guards_say_why(failed):
    guards = section(failed.to_html(), "Guards")

    assert "1 · Broad regression✗ failsThe pass rate fell from 100.0 % to 55.0 %" in guards
    assert "2 · Single items? cannot tell" in guards


def test_guards_that_did_not_fire_are_told_too(result):
    same = result({"Match": [1] * 20})
    html = verdict(same, same).to_html()
    off = verdict(same, same, severity="off").to_html()

    assert "✓ The gate passed" in Page(html).text
    assert section(html, "Guards").count("✓ quiet") == 2
    assert "– off" in section(off, "Guards")
    assert "What to do" not in html


def cards(html):
    return Page(re.search(r'<section class="cards".*?</section>', html, re.DOTALL)[0]).text


def test_guards_that_could_not_have_fired_are_not_called_quiet(result):
    few, fell = result({"Match": [1] * 5}), result({"Match": [0] * 5})
    guards = section(verdict(few, fell, severity="calibrated").to_html(), "Guards")

    assert "quiet" not in guards
    assert (
        "1 · Broad regression– could not fireWith 5 shared items, not even a drop of all is significant at "
        "alpha = 0.05; it takes at least 7."
    ) in guards
    assert "2 · Single items– could not fireGuard 2 cannot fire: 1 run of the baseline and 1" in guards


def test_a_quiet_guard_names_the_evaluators_that_it_could_not_watch(result):
    same = result({"Match": [1] * 20, "Rare": [1] * 3 + [None] * 17, "J": [1] * 20}, noisy=["J"])
    guards = section(verdict(same, same, severity="confirmed").to_html(), "Guards")

    assert "There are too few items to see any drop of Rare (3 items); it takes at least 8." in guards
    assert "✓ quiet" in guards
    assert "No drop of a single item counts. Guard 2 ignores drops of 'J'" in guards


def test_a_collapse_of_few_items_is_in_the_cards(result):
    html = verdict(result({"Match": [1] * 5}), result({"Match": [0] * 5}), severity="off").to_html()

    assert "Got worse5of 5 items (pass rate); too few to tell: it takes 7" in cards(html)
    assert "Regressed0" not in cards(html)


def test_items_without_a_clear_change_are_not_counted_as_unchanged(result):
    html = verdict(result({"Match": [1] * 20}), result({"Match": [0] * 2 + [1] * 18})).to_html()

    assert "Improved02 without a clear change · 18 unchanged" in cards(html)


def test_a_run_in_place_of_a_baseline_is_called_by_its_name(result):
    before, now = result({"Match": [1] * 6}, name="plants v1"), result({"Match": [1] * 6}, name="plants v2")
    identified = replace(before, provenance=replace(before.provenance, run_id="20261123-0101-aaaa"))

    html = RegressionGate().check_against(now, Snapshot.of(identified)).to_html()

    assert Page(re.search("<h1.*?</h1>", html)[0]).text == "plants v2 against plants v1"
    assert "baseline plants v1 (20261123-0101-aaaa)" in Page(html).text
    same = RegressionGate().check_against(before, Snapshot.of(identified))
    assert same.name == "plants v1 against another run"


def test_the_page_says_how_to_look_to_run_again_and_to_accept(failed):
    steps = section(failed.to_html(), "What to do")

    assert "dokimos show 20261123-0101-aaaa --item q-0" in steps
    assert "dokimos run TARGET --failed 20261123-0101-aaaa" in steps
    assert f"To accept the change (then commit tests/baselines/support.json)\n{ACCEPT}" in steps


def test_items_have_their_outputs_and_those_that_decide_are_marked(failed):
    data = data_of(failed.to_html())

    assert data["decides"] is True
    counting = [item[0] for item in data["items"] if item[5]]
    assert counting == [f"q-{i}" for i in range(9)]
    (before, now) = data["items"][0][3]
    assert [data["strings"][side[1]] for side in (before, now)] == ["Yes, 28 days.", "Yes, 29 days."]


def test_a_gate_without_a_baseline_has_a_page_too():
    html = GateVerdict(
        status=GateStatus.NO_BASELINE,
        name="support",
        config=GateConfig(on_no_baseline="fail"),
        candidate_pass_rate=0.5,
        no_baseline=GuardFinding(Guard.NO_BASELINE, "There is no baseline.", fails=True),
        accept_command=ACCEPT,
    ).to_html()

    assert (
        "– There is no baseline, and one is required · the candidate's pass rate is 50.0 %" in Page(html).text
    )
    assert f"To write the baseline\n{ACCEPT}" in Page(html).text
    assert "script-src 'none'" in html


def test_an_inconclusive_gate_says_whether_it_passes(result):
    small = result({"Match": [1, 1, 1, 1]})

    assert "? The gate is inconclusive ·" in Page(verdict(small, small, require_power=0.8).to_html()).text


def test_foreign_text_stays_text(item, joined):
    evil = '"></script><script>alert(1)</script><!--'
    one = item(0, {"Match": 1}, output=evil)
    named = replace(one, example=replace(one.example, id=evil, inputs={"input": evil}))
    failed = replace(
        named, eval_results=(replace(named.eval_results[0], score=0.0, success=False, reason=evil),)
    )
    found = verdict(joined(named, name=evil), joined(failed, name=evil), severity="any")
    html = replace(found, name=evil, baseline=evil, note=evil, accept_command=evil).to_html()

    assert Page(html).tags.count("script") == 2
    assert data_of(html)["items"][0][0] == evil
