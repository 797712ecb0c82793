"""What unit tests share: no network, and results to compare, made of the scores that a test cares about."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence

import pytest

from dokimos._core.example import Example
from dokimos._core.provenance import EvaluatorInfo, Provenance
from dokimos._core.results import EvalResult, ExperimentResult, ItemResult, RunResult

Scores = Mapping[str, Sequence[float | None]]


@pytest.fixture(autouse=True)
def _no_connections(monkeypatch):
    def refuse(self, address):
        raise AssertionError(f"a unit test tried to connect to {address!r}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)


def make_item(index, scores, *, ids=True, error=None, errors=None, output="same", threshold=0.5, lower=()):
    found = [
        EvalResult(
            name,
            score,
            threshold=threshold,
            success=None
            if threshold is None
            else (score <= threshold if name in lower else score >= threshold),
            reason=f"{name} is {score}.",
        )
        for name, score in scores.items()
        if score is not None
    ]
    found += [EvalResult(name, error=text) for name, text in (errors or {}).items()]
    example = Example.of(f"question {index}", f"answer {index}", id=f"q-{index}" if ids else None)
    return ItemResult(
        index,
        example,
        actual_outputs={} if error else {"output": output},
        eval_results=() if error else tuple(found),
        error=error,
    )


def make_result(scores: Scores, *, lower=(), noisy=(), name="support", **options) -> ExperimentResult:
    """One run: `scores` has for each evaluator the scores of all items."""
    return make_runs([scores], lower=lower, noisy=noisy, name=name, **options)


def make_runs(runs: Sequence[Scores], *, lower=(), noisy=(), name="support", **options) -> ExperimentResult:
    """Several runs of the same items."""
    names = list(runs[0])
    infos = tuple(
        EvaluatorInfo(
            name=one,
            threshold=options.get("threshold", 0.5),
            direction="lower_is_better" if one in lower else "higher_is_better",
            deterministic=one not in noisy,
            fingerprint=f"fp-{one}",
        )
        for one in names
    )
    return ExperimentResult(
        name=name,
        runs=tuple(
            RunResult(index=place, item_results=tuple(_items(scores, lower=lower, **options)))
            for place, scores in enumerate(runs)
        ),
        provenance=Provenance(run_id=name, dataset_name="letters"),
        evaluators=infos,
    )


def _items(scores, **options):
    columns = zip(*scores.values(), strict=True)
    return (make_item(i, dict(zip(scores, row, strict=True)), **options) for i, row in enumerate(columns))


@pytest.fixture(scope="session")
def runs():
    """The makers above, for tests that need them."""
    return make_runs


@pytest.fixture(scope="session")
def result():
    return make_result


@pytest.fixture(scope="session")
def item():
    return make_item


@pytest.fixture(scope="session")
def joined():
    """A result of one run of given items."""

    def make(*items, name="support", evaluators=("Match",)):
        infos = tuple(EvaluatorInfo(name=one, threshold=0.5) for one in evaluators)
        return ExperimentResult(name=name, runs=(RunResult(item_results=items),), evaluators=infos)

    return make
