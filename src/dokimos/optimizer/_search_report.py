"""What a search leaves behind: the suite with what was accepted, its trials line by line, and a report."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from dokimos._core.jsonable import jsonable
from dokimos._core.number_format import UNKNOWN, format_or_unknown, percent, usd
from dokimos._core.text import pluralize
from dokimos._runtime.terminal_text import escape_control_characters
from dokimos.optimizer._trial import trial_fields
from dokimos.stats._skewed_mean import coverage_of_few

if TYPE_CHECKING:
    from dokimos.optimizer._axes import AxisLocations
    from dokimos.optimizer._suite_bench import Spending
    from dokimos.optimizer._trial import SearchState, Split, Trial
    from dokimos.suites._optimizer_schema import OptimizerBlock

BEST_FILE: Final = "best.yaml"
TRIALS_FILE: Final = "trials.jsonl"
REPORT_FILE: Final = "report.md"


class Plan(Protocol):
    """What a report tells of the plan of a search."""

    @property
    def path(self) -> Path: ...
    @property
    def block(self) -> OptimizerBlock: ...
    @property
    def locations(self) -> AxisLocations: ...
    @property
    def splits(self) -> Mapping[Split, tuple[str, ...]]: ...
    @property
    def warnings(self) -> Sequence[str]: ...


@dataclass(kw_only=True)
class Outputs:
    """Writes the outputs of a search; they are whole at any moment."""

    folder: Path
    plan: Plan
    spending: Spending
    _best: int | None = field(default=None)

    @property
    def best_file(self) -> Path:
        return self.folder / BEST_FILE

    @property
    def report_file(self) -> Path:
        return self.folder / REPORT_FILE

    def write(self, state: SearchState) -> None:
        """Write down how far the search has come."""
        trials = (json.dumps(jsonable(trial_fields(trial)), ensure_ascii=False) for trial in state.trials)
        _replace(self.folder / TRIALS_FILE, "".join(f"{line}\n" for line in trials))
        if self._best != state.best.id:
            self._write_best(state)
            self._best = state.best.id
        _replace(self.report_file, "\n".join(self._report(state)) + "\n")

    def _write_best(self, state: SearchState) -> None:
        text, files = self.plan.locations.render(state.best.candidate)
        # The files first: when best.yaml is there, all that it names is.
        for name, content in files.items():
            target = self.folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            _replace(target, content)
        _replace(self.best_file, text)

    def _report(self, state: SearchState) -> Iterator[str]:
        yield f"# Optimization of {self.plan.path.name}"
        yield ""
        yield from self._verdict(state)
        yield from _section("Warnings", [f"- {warning}" for warning in self._warnings(state)])
        yield from _section("What changed", list(self._changes(state)))
        yield from _section("Trials", _trial_table(state))
        yield from _section("Tests on held-out cases", _test_table(state))
        yield from _section("How it was decided", self._method(state))

    def _verdict(self, state: SearchState) -> Iterator[str]:
        trials = pluralize(len(state.trials), "trial")
        if not state.has_improved:
            loss = _number(state.best.loss)
            yield f"**No improvement** was found in {trials}: the suite stays as it is (loss {loss})."
        else:
            decision = state.best.decision
            reason = "" if decision is None else f" {decision.reason}"
            yield (
                f"**Improved**: trial {state.best.id} of {trials} is accepted. On the training cases the "
                f"loss falls from {_number(state.baseline.loss)} to {_number(state.best.loss)}.{reason}"
            )
        cost, tokens = self.spending.total
        yield ""
        ended = f"has ended: {state.stopped}" if state.stopped else "has not ended yet"
        yield f"The search {ended}. Spent: {format_spending(cost, tokens)}."

    def _warnings(self, state: SearchState) -> list[str]:
        over = state.baseline.infeasible
        return [*self.plan.warnings, *([f"The suite as it was exceeds a ceiling: {over}."] if over else [])]

    def _changes(self, state: SearchState) -> Iterator[str]:
        before, after = state.baseline.candidate, state.best.candidate
        rows = [
            f"| `{path}` | {_value(before.numbers[path])} | {_value(value)} |"
            for path, value in after.numbers.items()
            if value != before.numbers[path]
        ]
        if rows:
            yield from ("| | before | after |", "|---|---|---|", *rows, "")
        for path, text in after.texts.items():
            if text != before.texts[path]:
                yield from (f"`{path}`:", "", "```diff", *_diff(before.texts[path], text), "```", "")
        if state.has_improved:
            yield from self._how_to_apply(state)

    def _how_to_apply(self, state: SearchState) -> Iterator[str]:
        _, files = self.plan.locations.render(state.best.candidate)
        beside = "".join(f" and `{name}`" for name in files)
        yield (
            f"`{BEST_FILE}` is the suite with these values and nothing else changed. Its relative paths are "
            f"those of the suite: put `{BEST_FILE}`{beside} in the place of `{self.plan.path.name}`"
            f"{' and of the file of that name' if files else ''}."
        )

    def _method(self, state: SearchState) -> list[str]:
        block, splits = self.plan.block, self.plan.splits
        loss = ", ".join(f"{name} {weight:g}" for name, weight in block.loss.items())
        repeats = f", each run {block.repeats} times" if block.repeats > 1 else ""
        lines = [
            f"- Loss: 1 less the weighted mean of {loss}; a case without a reply scores 0.",
            f"- {pluralize(len(splits['train']), 'training case')} and "
            f"{pluralize(len(splits['holdout']), 'held-out case')}{repeats}, divided with seed {block.seed}.",
        ]
        if block.holdout:
            lines.append(
                "- The best candidate of each phase on the training cases is put to a one-sided sign-flip "
                "test of the held-out cases' paired differences. Where nothing is better, at most "
                f"{percent(block.alpha)} of all searches accept anything."
            )
        return lines


def format_spending(cost: float | None, tokens: int | None) -> str:
    """Say what was spent; what is not known is not made up."""
    dollars = "dollars unknown" if cost is None else usd(cost)
    return f"{dollars}, {'tokens unknown' if tokens is None else f'{tokens:,} tokens'}"


def _section(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield from ("", f"## {title}", "", *lines)


def _trial_table(state: SearchState) -> list[str]:
    if not state.trials:
        return []
    head = ["| trial | cycle | phase | tried | loss | base | cost of a case | latency | |", "|" + "---|" * 9]
    return [*head, *map(_trial_row, state.trials)]


def _trial_row(trial: Trial) -> str:
    tried = trial.summary if trial.phase == "textual" else _point(trial.candidate.numbers)
    note = (
        trial.error
        or trial.infeasible
        or ("**accepted**" if trial.is_accepted else "tested" if trial.decision else "")
    )
    latency = trial.measured.latency_ms
    cells = [
        str(trial.id), str(trial.cycle), str(trial.phase), tried, _number(trial.loss),
        _number(trial.baseline_loss), format_or_unknown(usd, trial.measured.case_cost_usd),
        UNKNOWN if latency is None else f"{latency:.0f} ms", note,
    ]  # fmt: skip
    return "| " + " | ".join(map(_cell, cells)) + " |"


def _test_table(state: SearchState) -> list[str]:
    tested = [trial for trial in state.trials if trial.decision is not None]
    if not tested:
        return []
    rows = ["| trial | cases | loss falls by | 95 % interval | p | level | |", "|" + "---|" * 7]
    for trial in tested:
        decision = trial.decision
        assert decision is not None
        interval = decision.interval
        interval_cell = UNKNOWN if interval is None else f"{interval.low:+.4f} to {interval.high:+.4f}"
        covered = coverage_of_few(decision.cases)
        if interval is not None and covered is not None:
            interval_cell += f" (n = {decision.cases}: covers about {percent(covered)})"
        cells = [
            str(trial.id), str(decision.cases), f"{decision.improvement:+.4f}", interval_cell,
            f"{decision.p:.3g}", f"{decision.level:.3g}", decision.reason,
        ]  # fmt: skip
        rows.append("| " + " | ".join(map(_cell, cells)) + " |")
    return rows


def _diff(before: str, after: str) -> list[str]:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "before", "after", lineterm="")
    # Or a text with a code block would end the block of the diff.
    return [line.replace("```", "'''") for line in lines]


def _point(point: Mapping[str, Any]) -> str:
    return ", ".join(f"{path} = {_value(value)}" for path, value in point.items())


def _value(value: object) -> str:
    return UNKNOWN if value is None else json.dumps(jsonable(value), ensure_ascii=False)


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.4f}"


def _cell(text: str) -> str:
    return escape_control_characters(text).replace("|", "\\|").replace("\n", " ")


def _replace(path: Path, text: str) -> None:
    """Write a file so that it is there as a whole or not at all."""
    part = path.with_name(f"{path.name}.part")
    part.write_bytes(text.encode("utf-8", "surrogatepass"))
    os.replace(part, path)
