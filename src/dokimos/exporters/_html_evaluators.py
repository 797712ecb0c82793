"""The evaluators of a result as a table of an HTML report, and its breakdowns by run and by metadata."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from dokimos._core import number_format
from dokimos._core.evaluator_summary import EvaluatorSummary
from dokimos._core.jsonable import jsonable
from dokimos._core.markup import Content, Html, isolate_text, join, render_preformatted, tag
from dokimos._core.number_format import UNKNOWN, format_or_unknown
from dokimos._core.provenance import EvaluatorInfo
from dokimos._core.results import ExperimentResult
from dokimos._core.score_range import describe_range
from dokimos._core.summary import RunSummary, describe_labels
from dokimos.exporters._html_charts import histogram, rate_bar
from dokimos.exporters._html_page import head_cell, number_cell
from dokimos.exporters._item_runs import by_tag, pass_interval

FIRST_EVALUATORS: Final = 100
"""How many evaluators are listed before a click; of more, those that most items failed."""
_MAX_CELL_LENGTH: Final = 60
"""Characters of all parameters of an evaluator that are listed before a click."""
_MODEL: Final = re.compile(r"\S+ (?P<model>\S+) at \S+")
"""How our judges describe themselves: provider, model, address."""
_JUDGE: Final = "judge"


@dataclass(frozen=True, slots=True)
class _Columns:
    """Which columns have anything in them."""

    spread: bool
    verdicts: bool
    errors: bool
    skipped: bool

    @classmethod
    def of(cls, result: ExperimentResult, summary: RunSummary) -> _Columns:
        evaluators = summary.evaluators
        return cls(
            spread=result.run_count > 1,
            verdicts=any(one.judged for one in evaluators),
            errors=any(one.errors for one in evaluators),
            skipped=any(one.skipped for one in evaluators),
        )


def evaluator_table(result: ExperimentResult, summary: RunSummary) -> Html:
    """Return the evaluators as rows: how each is set up, what it gave, and how its scores are spread."""
    if not result.evaluator_names:
        return tag(
            "section", tag("h2", "Evaluators"), tag("p", "No evaluator gave a result.", class_="empty")
        )
    infos = {info.name: info for info in result.evaluators}
    summaries = {one.name: one for one in summary.evaluators}
    columns = _Columns.of(result, summary)
    indexes = {name: index for index, name in enumerate(result.evaluator_names)}
    names = list(indexes)
    if len(names) > FIRST_EVALUATORS:
        # A page of thousands of rows takes seconds to lay out; those in closed details take none.
        names.sort(key=lambda name: _goodness(summaries[name]))

    def table(part: list[str]) -> Html:
        rows = [
            _evaluator_row(indexes[name], result, summaries[name], infos.get(name), columns) for name in part
        ]
        head = tag("thead", tag("tr", _head(columns, summary)))
        whole = tag("table", head, tag("tbody", rows), class_="sortable evaluators")
        return tag("div", whole, class_="scroll")

    more = names[FIRST_EVALUATORS:]
    return tag(
        "section",
        tag("h2", "Evaluators"),
        table(names[:FIRST_EVALUATORS]),
        tag("details", tag("summary", f"{len(more):,} more"), table(more), class_="more-rows")
        if more
        else None,
    )


def _goodness(summary: EvaluatorSummary) -> tuple[float, float]:
    """Where an evaluator stands among many: the one that most items failed first."""
    rate = 1.0 if summary.pass_rate is None else summary.pass_rate
    return rate, -summary.errors


def _head(columns: _Columns, summary: RunSummary) -> Iterable[Content]:
    spread = "Sample standard deviation of the means of the runs"
    usual = all(one.score_range is None for one in summary.evaluators)
    return (
        head_cell("Evaluator"),
        head_cell("Mean", "num"),
        head_cell("±", "num", spread) if columns.spread else None,
        (head_cell("Pass rate", "num"), head_cell("Passed", "num")) if columns.verdicts else None,
        head_cell("Errors", "num") if columns.errors else None,
        head_cell("Skipped", "num") if columns.skipped else None,
        head_cell("Scores 0 to 1" if usual else "Scores", "plain"),
    )


def _evaluator_row(
    index: int,
    result: ExperimentResult,
    summary: EvaluatorSummary,
    info: EvaluatorInfo | None,
    columns: _Columns,
) -> Html:
    mean = result.average_score(summary.name)
    spread = result.score_std_dev(summary.name) if columns.spread else None
    threshold = info.threshold if info else None
    lower = info is not None and info.lower_is_better
    cells: list[Content] = [
        tag("th", _name(index, summary, info), scope="row", data_sort=summary.name.lower()),
        number_cell(mean, number_format.format_score(mean)),
        number_cell(spread, number_format.format_score(spread)) if columns.spread else None,
        _verdict_cells(summary) if columns.verdicts else None,
        _error_cell(summary.errors) if columns.errors else None,
        _render_skips(summary.skipped) if columns.skipped else None,
        tag("td", histogram(summary, threshold, lower=lower)),
    ]
    return join(tag("tr", cells), "\n")


def _verdict_cells(summary: EvaluatorSummary) -> Html:
    passed = f"{summary.passed:,}/{summary.judged:,}" if summary.judged else UNKNOWN
    return join(
        number_cell(summary.pass_rate, format_or_unknown(number_format.percent, summary.pass_rate)),
        number_cell(summary.passed, passed),
    )


def _render_skips(count: int) -> Html:
    return number_cell(count, f"{count:,}" if count else UNKNOWN)


def _name(index: int, summary: EvaluatorSummary, info: EvaluatorInfo | None) -> Html:
    threshold = info.threshold if info else None
    lower = info is not None and info.lower_is_better
    parameters = {} if info is None else dict(info.parameters)
    judge = parameters.pop(_JUDGE, None)
    return join(
        tag("span", isolate_text(summary.name), class_="name", data_place=index),
        tag(
            "span",
            (isolate_text(_model_of(judge)), " · ") if judge is not None else None,
            _rule(threshold, lower=lower, decides=summary.decides),
            _range_note(summary),
            class_="rule",
        ),
        tag("span", isolate_text(describe_labels(summary.labels)), class_="rule") if summary.labels else None,
        _parameters(parameters, judge),
    )


def _model_of(judge: object) -> str:
    """The model of a judge, as the reader knows it; what it is else, where it is not one of ours."""
    text = str(judge)
    known_form = _MODEL.match(text)
    return number_format.to_single_line(known_form["model"] if known_form else text, _MAX_CELL_LENGTH)


def _parameters(parameters: dict[str, Any], judge: object) -> Html | None:
    """The settings that are not the usual ones: at once where they are short, else when asked for."""
    if not parameters and (judge is None or _model_of(judge) == str(judge)):
        return None
    short = " · ".join(f"{key}: {_as_text(value)}" for key, value in parameters.items())
    if len(short) <= _MAX_CELL_LENGTH and "\n" not in short and judge is None:
        return tag("span", isolate_text(short), class_="rule")
    whole = {**({} if judge is None else {_JUDGE: judge}), **parameters}
    text = "\n".join(f"{key}: {_as_text(value)}" for key, value in whole.items())
    title = number_format.to_single_line(short, _MAX_CELL_LENGTH) or "how it asks"
    return tag(
        "details",
        tag("summary", isolate_text(title), class_="rule"),
        render_preformatted(number_format.truncate_middle(text, 4_000), class_="text"),
        class_="parameters",
    )


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(jsonable(value), ensure_ascii=False)


def _range_note(summary: EvaluatorSummary) -> str:
    return "" if summary.score_range is None else f" · scores {describe_range(summary.score_range)}"


def _rule(threshold: float | None, *, lower: bool, decides: bool) -> str:
    if threshold is None:
        rule = "a yes or no of its own" if decides else "informs only"
        return f"{rule} · lower is better" if lower else rule
    limit = number_format.format_score(threshold)
    return f"at most {limit} · lower is better" if lower else f"at least {limit}"


def _error_cell(count: float) -> Html:
    return number_cell(
        count, f"{number_format.format_count(count)} !" if count else UNKNOWN, "error" if count else ""
    )


def breakdowns(result: ExperimentResult, keys: tuple[str, ...]) -> Html | None:
    """Return the pass rate by run and by each of the metadata keys; None where there is neither."""
    blocks = []
    if result.run_count > 1:
        runs = [(f"Run {run.index + 1}", replace(result, runs=(run,))) for run in result.runs]
        blocks.append(_breakdown("By run", "Run", runs))
    blocks += [_breakdown(f"By {key}", key, list(by_tag(result, key).items())) for key in keys]
    return tag("section", blocks, class_="breakdowns", aria_label="Breakdowns") if blocks else None


def _breakdown(title: str, column: str, parts: list[tuple[str, ExperimentResult]]) -> Html:
    errors = any(part.error_count for _, part in parts)
    table = tag(
        "table",
        tag(
            "thead",
            tag(
                "tr",
                head_cell(isolate_text(column)),
                head_cell("Judged", "num"),
                head_cell("Pass rate", "num"),
                head_cell("95 % interval", "plain"),
                head_cell("Errors", "num") if errors else None,
            ),
        ),
        tag("tbody", [_breakdown_row(label, part, errors=errors) for label, part in parts]),
        class_="sortable",
    )
    return tag(
        "details",
        tag("summary", isolate_text(title)),
        tag("div", table, class_="scroll"),
        class_="breakdown",
        open=True,
    )


def _breakdown_row(label: str, part: ExperimentResult, *, errors: bool) -> Html:
    rate, interval = part.pass_rate, pass_interval(part)
    judged = part.pass_count + part.fail_count
    bar = None if rate is None or interval is None else rate_bar(rate, interval)
    return tag(
        "tr",
        tag("th", isolate_text(label), scope="row", data_sort=label.lower()),
        number_cell(judged, number_format.format_count(judged)),
        number_cell(rate, format_or_unknown(number_format.percent, rate)),
        tag("td", bar, class_="bar"),
        _error_cell(part.error_count) if errors else None,
    )
