import random
from statistics import fmean, stdev

import pytest

from dokimos import CallMetrics, EvalResult, Example, ItemResult
from dokimos._core.summary import RunSummary, Tally


def item(*results, metrics=None, error=None):
    return ItemResult(0, Example(), eval_results=results, metrics=metrics, error=error)


def item_of(score):
    return item(EvalResult.of("A", score))


def summary_of(*items):
    return Tally.of(items).summary()


def test_the_mean_and_spread_are_those_of_the_scores():
    chance = random.Random(1)
    scores = [chance.random() for _ in range(1000)]

    found = summary_of(*map(item_of, scores)).evaluator("A")

    assert found.mean == pytest.approx(fmean(scores), abs=1e-15)
    assert found.std_dev == pytest.approx(stdev(scores), abs=1e-12)


def test_a_summary_in_between_changes_no_totals():
    scores = [n % 300 / 300 for n in range(900)]
    tally = Tally()
    for score in scores:
        tally.add(item_of(score))
        if score == 0.5:
            tally.summary()

    assert tally.summary() == summary_of(*map(item_of, sorted(scores)))
    assert sum(tally.summary().evaluator("A").histogram) == len(scores)


def test_equal_scores_have_no_spread():
    assert summary_of(*[item_of(0.1)] * 10).evaluator("A").std_dev == pytest.approx(0.0, abs=1e-8)
    assert summary_of(item_of(0.1)).evaluator("A").std_dev is None


def test_the_sums_do_not_depend_on_the_order():
    items = [
        item(EvalResult.of("A", n / 7 % 1), metrics=CallMetrics(n, cost_usd=n / 3e7, latency_ms=n * 1.1))
        for n in range(200)
    ]
    shuffled = random.Random(2).sample(items, len(items))

    assert summary_of(*items) == summary_of(*shuffled)


def test_parts_add_up_to_the_whole():
    items = [
        item(EvalResult.of("A", n / 10), EvalResult("B", error="x", fail_on_error=n % 2 == 0),
             metrics=CallMetrics(n, cost_usd=0.1 * n, latency_ms=n + 1.0))
        for n in range(11)
    ]  # fmt: skip

    merged = RunSummary.merge([summary_of(*items[:4]), summary_of(*items[4:])])

    assert merged == summary_of(*items)
    assert RunSummary.merge([]) == RunSummary()


def test_counts_are_kept_apart():
    summary = summary_of(
        item(EvalResult.passed("A")),
        item(EvalResult.failed("A")),
        item(EvalResult("A", error="x")),
        item(EvalResult("A", error="x", fail_on_error=False)),
        item(EvalResult("A", skipped="x")),
        item(error="x"),
    )

    assert (summary.total, summary.passed, summary.failed, summary.errored) == (6, 1, 4, 3)
    assert (summary.not_judged, summary.warned, summary.judged) == (1, 0, 5)
    assert summary.pass_rate == 0.2
    evaluator = summary.evaluator("A")
    assert (evaluator.passed, evaluator.failed, evaluator.errors, evaluator.skipped) == (1, 1, 2, 1)
    assert evaluator.pass_rate == 0.5
    assert evaluator.scored == 2


def test_nothing_has_no_numbers():
    summary = summary_of()

    assert summary.pass_rate is None
    assert summary.metrics == CallMetrics()
    assert summary.latency_p95_ms is None
    assert summary.evaluator("A") is None


@pytest.mark.parametrize(
    ("score", "bin_index"), [(0.0, 0), (0.0999, 0), (0.1, 1), (0.5, 5), (0.95, 9), (1.0, 9), (True, 9)]
)
def test_the_histogram_has_ten_bins_with_the_last_one_closed(score, bin_index):
    histogram = summary_of(item_of(score)).evaluator("A").histogram

    assert [index for index, count in enumerate(histogram) if count] == [bin_index]


def test_the_median_and_p95_latency_are_within_half_a_percent():
    chance = random.Random(3)
    latencies = [chance.uniform(5, 5000) for _ in range(999)]

    summary = summary_of(*[item(metrics=CallMetrics(latency_ms=ms)) for ms in latencies])

    ordered = sorted(latencies)
    assert summary.metrics.latency_ms == pytest.approx(ordered[499], rel=0.006)
    assert summary.latency_p95_ms == pytest.approx(ordered[949], rel=0.006)


@pytest.mark.parametrize("latency", [0, 0.0, 1e-300, 1e12])
def test_extreme_latencies_are_counted(latency):
    summary = summary_of(item(metrics=CallMetrics(latency_ms=latency)))

    assert summary.metrics.latency_ms == pytest.approx(latency, rel=0.006, abs=1e-5)


def test_priced_counts_only_items_with_tokens():
    summary = summary_of(
        item(metrics=CallMetrics(1, 2, cost_usd=0.1)),
        item(metrics=CallMetrics(1, 2)),
        item(metrics=CallMetrics(latency_ms=1)),
        item(),
    )

    assert (summary.priced, summary.tokenized) == (1, 2)
    assert summary.metrics.cost_usd == 0.1
    assert (summary.metrics.tokens_in, summary.metrics.tokens_out) == (2, 4)


def test_what_was_never_measured_is_unknown_rather_than_zero():
    metrics = summary_of(item(metrics=CallMetrics(latency_ms=1))).metrics

    assert (metrics.tokens_in, metrics.cost_usd, metrics.cached_tokens_in) == (None, None, None)


def test_tiny_costs_add_up():
    summary = summary_of(*[item(metrics=CallMetrics(1, cost_usd=0.000_000_1))] * 1000)

    assert summary.metrics.cost_usd == 0.0001


def test_the_model_is_named_if_there_is_one():
    assert summary_of(item(metrics=CallMetrics(1, model="a"))).metrics.model == "a"
    assert summary_of(*[item(metrics=CallMetrics(1, model=m)) for m in "ab"]).metrics.model is None


def test_the_cost_of_evaluators_is_kept_with_them():
    results = [item(EvalResult("A", 1.0, metrics=CallMetrics(1, cost_usd=0.5))) for _ in range(2)]

    assert summary_of(*results).evaluator("A").metrics == CallMetrics(2, cost_usd=1.0)
    assert summary_of(*results).metrics.cost_usd is None
