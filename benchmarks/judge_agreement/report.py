"""The tables of the page, from the recorded results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, Final, TypeAlias

from arms import ARMS, OURS, PEERS
from cases import EVALUATORS, Case, cases_of
from measures import Measured, Pair, auc, auc_difference, kappa, kappa_difference

Results: TypeAlias = Mapping[tuple[str, str], dict[str, Any]]
"""The recorded result of each case and arm."""

TITLES: Final = {
    "llm_judge": "LLMJudge",
    "faithfulness": "Faithfulness",
    "answer_relevancy": "AnswerRelevancy",
    "correctness": "Correctness",
}
METRICS: Final = {
    ("llm_judge", "deepeval"): "DeepEval GEval",
    ("llm_judge", "ragas"): "Ragas AspectCritic",
    ("faithfulness", "deepeval"): "DeepEval Faithfulness",
    ("faithfulness", "ragas"): "Ragas Faithfulness",
    ("answer_relevancy", "deepeval"): "DeepEval AnswerRelevancy",
    ("answer_relevancy", "ragas"): "Ragas AnswerRelevancy",
    ("correctness", "deepeval"): "DeepEval GEval",
    ("correctness", "ragas"): "Ragas AnswerAccuracy",
}
OUR_THRESHOLDS: Final = {"faithfulness": 0.8}
TRIED: Final = "tried"
"""The arm of our Faithfulness with a change of its prompt that was not kept, recorded then."""
HALF: Final = 10
"""The change was chosen on the inputs up to this one."""
THRESHOLD: Final = 0.5
"""Ours and DeepEval's unless said otherwise; Ragas has none, and gets the same."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """The results of all arms for one evaluator."""

    evaluator: str
    inputs: tuple[tuple[Case, Case], ...]
    """The good and the bad case of each input that all arms have judged."""
    results: Results

    def rows(self, arm: str) -> list[dict[str, Any]]:
        return [self.results[case.name, arm] for both in self.inputs for case in both]

    def pairs(self, arm: str) -> list[Pair]:
        rows = self.rows(arm)
        return [Pair(good["score"], bad["score"]) for good, bad in zip(rows[::2], rows[1::2], strict=True)]

    def threshold(self, arm: str) -> float:
        return OUR_THRESHOLDS.get(self.evaluator, THRESHOLD) if arm == OURS else THRESHOLD

    def title(self, arm: str) -> str:
        return f"**dokimos {TITLES[self.evaluator]}**" if arm == OURS else METRICS[self.evaluator, arm]


def tables(results: Results) -> str:
    """Return all tables as Markdown."""
    sheets = [sheet for sheet in map(sheet_of, EVALUATORS, [results] * len(EVALUATORS)) if sheet.inputs]
    parts = [agreement_table(sheets), difference_table(sheets)]
    parts += [change_table(sheet) for sheet in sheets if sheet.evaluator == "faithfulness"]
    return "\n\n".join(parts) + "\n"


def sheet_of(evaluator: str, results: Results) -> Sheet:
    """Return what all arms have judged of an evaluator's cases."""
    cases = cases_of(evaluator)
    inputs = zip(cases[::2], cases[1::2], strict=True)
    judged = [both for both in inputs if all((case.name, arm) in results for case in both for arm in ARMS)]
    return Sheet(evaluator, tuple(judged), results)


def agreement_table(sheets: Iterable[Sheet]) -> str:
    """Return how far each arm agrees with the labels, and what it costs."""
    head = ("evaluator", "cases", "AUC", "kappa", "no score", "calls", "tokens read", "tokens written")
    return _table(head, [_agreement_row(sheet, arm) for sheet in sheets for arm in ARMS])


def difference_table(sheets: Iterable[Sheet]) -> str:
    """Return how far ours and each other arm are apart on the same cases."""
    head = ("dokimos", "compared with", "AUC", "dokimos is", "kappa", "dokimos is")
    return _table(head, [_difference_row(sheet, peer) for sheet in sheets for peer in PEERS])


def change_table(sheet: Sheet) -> str:
    """Return the AUC on the inputs on which a change was chosen, and on the others."""
    head = ("AUC", f"inputs 1 to {HALF} (tuned on)", f"inputs from {HALF + 1} on (reported)")
    return _table(head, [_change_row(sheet, arm) for arm in (OURS, TRIED, *PEERS)])


def _change_row(sheet: Sheet, arm: str) -> Sequence[str]:
    title = "dokimos Faithfulness, claims extracted with the input" if arm == TRIED else sheet.title(arm)
    halves = ([both for both in sheet.inputs if (both[0].group <= HALF) is first] for first in (True, False))
    return title, *(_auc_cell(replace(sheet, inputs=tuple(half)), arm) for half in halves)


def _auc_cell(sheet: Sheet, arm: str) -> str:
    recorded = all((case.name, arm) in sheet.results for both in sheet.inputs for case in both)
    return _figure(auc(sheet.pairs(arm))) if recorded and sheet.inputs else "not recorded"


def _agreement_row(sheet: Sheet, arm: str) -> Sequence[str]:
    pairs, rows = sheet.pairs(arm), sheet.rows(arm)
    return (
        sheet.title(arm),
        str(len(rows)),
        _figure(auc(pairs)),
        _figure(kappa(pairs, sheet.threshold(arm))),
        str(sum(row["score"] is None for row in rows)),
        f"{fmean(row['calls'] for row in rows):.1f}",
        f"{fmean(row['prompt_tokens'] for row in rows):.0f}",
        f"{fmean(row['reply_tokens'] for row in rows):.0f}",
    )


def _difference_row(sheet: Sheet, peer: str) -> Sequence[str]:
    ours, theirs = sheet.pairs(OURS), sheet.pairs(peer)
    apart = auc_difference(ours, theirs)
    agreed = kappa_difference(ours, theirs, at=(sheet.threshold(OURS), sheet.threshold(peer)))
    figures = (_change(apart), verdict_on(apart), _change(agreed), verdict_on(agreed))
    return TITLES[sheet.evaluator], sheet.title(peer), *figures


def verdict_on(difference: Measured) -> str:
    """Return `better` or `worse` only where the interval excludes 0."""
    if difference.interval.low > 0:
        return "better"
    return "worse" if difference.interval.high < 0 else "indistinguishable"


def _figure(measured: Measured) -> str:
    return f"{measured.value:.2f} [{measured.interval.low:.2f}, {measured.interval.high:.2f}]"


def _change(measured: Measured) -> str:
    return f"{measured.value:+.2f} [{measured.interval.low:+.2f}, {measured.interval.high:+.2f}]"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
