"""The regression gate, step by step: from a result to pass, fail or inconclusive.

1. Baseline: read the committed file, or write it where there is none (`_verdict`, `_baseline.py`).
2. Comparison and decision: `decide` compares the two and returns which guards fire (`_decision.py`); guard 1
   looks at the pass rate and the evaluators, guard 2 at single items (`_severity.py`).
3. Confirmation: `decide_and_confirm` runs suspicious items again and decides anew (`_reruns.py`).
4. Verdict: `build_verdict` turns the decision into PASS, FAIL or INCONCLUSIVE (`_verdict.py`), and
   `_save_verdict` writes it to its file.
"""

from __future__ import annotations

import contextlib
import json
import logging
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Final

from dokimos._core.results import ExperimentResult
from dokimos._runtime.terminal_text import escape_control_characters
from dokimos.comparison._config import Pairing
from dokimos.comparison._pairing import pair
from dokimos.comparison._snapshot import Snapshot
from dokimos.errors import BaselineWarning, ConfigurationError, InconclusiveWarning, RegressionError
from dokimos.gate._baseline import baseline_of, read_baseline, write_baseline
from dokimos.gate._decision import Decision, Guard, GuardFinding, decide
from dokimos.gate._gate_checks import check_owner, check_pairing, check_rerun, check_whole_run
from dokimos.gate._gate_config import GateConfig
from dokimos.gate._gate_environment import (
    NOISE_SUFFIX,
    GateEnvironment,
    file_stem,
    keep_out_of_git,
    write_atomically,
)
from dokimos.gate._item_guards import RERUNS
from dokimos.gate._reruns import Rerun, rerun_items
from dokimos.gate._variation import NoiseMeasurements
from dokimos.gate._verdict import GateStatus, GateVerdict
from dokimos.gate._worse_items import DataLine, find_data_lines

if TYPE_CHECKING:
    from dokimos.gate._noise_report import NoiseReport

_log: Final = logging.getLogger("dokimos.gate")


@dataclass(frozen=True, init=False)
class RegressionGate:
    """A check of whether a result is worse than its committed baseline.

    Args:
        baseline: A name for a file in `tests/baselines`, a path, or None for the name of the experiment.
        config: The gate's options.
        root: The project; unless given, pytest's rootdir, else the nearest folder up with a `pyproject.toml`.
        verdict_dir: Where verdicts are written; `.dokimos/verdicts` unless given.
        accept_command: The command that accepts a change; derived from the running command unless given.
        rerun: How to run suspicious items again: the experiment, or a function of examples.
        noise: The file that `dokimos noise -o` wrote, or a `NoiseReport`; `NAME.noise.json` unless given.

    Example:
        >>> result = evaluate([Example.of("a", "A")], str.upper, [ExactMatch()], quiet=True, journal=False)
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     gate = RegressionGate("answers", root=Path(folder))
        ...     gate.check(result).passed  # the first check writes the baseline
        True
    """

    baseline: str | Path | None
    config: GateConfig
    environment: GateEnvironment
    verdict_dir: Path
    accept_command: str
    rerun: Rerun | None
    noise: Path | NoiseReport | None

    def __init__(
        self,
        baseline: str | Path | None = None,
        *,
        config: GateConfig | None = None,
        root: Path | None = None,
        verdict_dir: Path | None = None,
        accept_command: str | None = None,
        rerun: Rerun | None = None,
        noise: str | Path | NoiseReport | None = None,
    ) -> None:
        config = config or GateConfig()
        environment = GateEnvironment.here(root)
        check_rerun(config, rerun)
        # Written by hand: what is stored is derived from what is given, as `environment` is from `root`.
        values = {
            "baseline": baseline,
            "config": config,
            "environment": environment,
            "verdict_dir": verdict_dir or environment.verdict_dir,
            "accept_command": accept_command or environment.accept_command(),
            "rerun": rerun,
            "noise": Path(noise) if isinstance(noise, str) else noise,
        }
        for attribute, value in values.items():
            object.__setattr__(self, attribute, value)

    def check(self, result: ExperimentResult) -> GateVerdict:
        """Return the verdict on a result, after writing the baseline if it is missing or to be updated.

        If nothing was compared, the logger `dokimos.gate` says why, and so does the verdict's message.

        Raises:
            ConfigurationError: if the baseline cannot be read or written, or does not fit the result.
        """
        verdict = self._verdict(result)
        if verdict.not_compared:
            _log.warning("%s", escape_control_characters(verdict.not_compared))
        return verdict

    def _verdict(self, result: ExperimentResult) -> GateVerdict:
        check_whole_run(result.provenance.partial)
        path = self.environment.baseline_path(self.baseline, result.name)
        if self.config.update_baseline or self.environment.wants_update:
            return self._update_baseline(result, path)
        if not path.exists():
            return self._handle_missing_baseline(result, path)
        baseline = read_baseline(path)
        check_owner(baseline, path, self._name(result))
        check_pairing(baseline, path, self.config)
        noise = self._load_noise(path)
        decision = decide_and_confirm(
            baseline.snapshot, Snapshot.of(result), self.config, baseline.pairing, self.rerun, noise
        )
        verdict = build_verdict(
            decision,
            self.config,
            name=self.environment.gate_name(path),
            baseline=self.environment.display_path(path),
            accept_command=self.accept_command,
            data_lines=find_data_lines(decision, result, self.environment),
        )
        return self._save_verdict(verdict)

    def check_against(self, result: ExperimentResult, run: Snapshot) -> GateVerdict:
        """Return the verdict on a result, compared with a run instead of the baseline file.

        Raises:
            ConfigurationError: if the items of the two cannot be paired.
        """
        for partial in (result.provenance.partial, run.partial):
            check_whole_run(partial)
        noise = self._load_noise()
        decision = decide_and_confirm(run, Snapshot.of(result), self.config, None, self.rerun, noise)
        # Without the run's id: a comment on a pull request is found and updated by this name.
        name = f"{result.name} against {'another run' if run.name == result.name else run.name}"
        lines = find_data_lines(decision, result, self.environment)
        return self._save_verdict(
            build_verdict(decision, self.config, name=name, baseline=run.label, data_lines=lines)
        )

    def verify(self, result: ExperimentResult) -> GateVerdict:
        """Return the verdict if it passes.

        A `BaselineWarning` says that nothing was compared, since the baseline was created, updated or
        missing; an `InconclusiveWarning` says that the verdict is INCONCLUSIVE.

        Raises:
            RegressionError: with the verdict, if it does not pass.
        """
        __tracebackhide__ = True
        return _require_pass(self._verdict(result), stacklevel=3)

    def _load_noise(self, baseline: Path | None = None) -> NoiseMeasurements | None:
        """Return the noise that was measured on the unchanged system, None if there is no measurement."""
        if self.noise is not None:
            return (
                NoiseMeasurements.read(self.noise)
                if isinstance(self.noise, Path)
                else self.noise.measurements
            )
        beside = None if baseline is None else baseline.with_suffix(NOISE_SUFFIX)
        return NoiseMeasurements.read(beside) if beside is not None and beside.is_file() else None

    def _name(self, result: ExperimentResult) -> str | None:
        """Return the name by which the baseline file is found, None if its path is given."""
        if isinstance(self.baseline, Path):
            return None
        return result.name if self.baseline is None else self.baseline

    def _update_baseline(self, result: ExperimentResult, path: Path) -> GateVerdict:
        self._write_baseline(result, path)
        note = f"Updated the baseline {self._quote_path(path)} to this run. Review the change and commit it."
        return self._build_uncompared_verdict(GateStatus.PASS, result, path, note)

    def _handle_missing_baseline(self, result: ExperimentResult, path: Path) -> GateVerdict:
        required = self.config.on_no_baseline == "fail"
        # A baseline written in CI would be lost with the machine, and the gate would pass for ever.
        if self.environment.in_ci or required:
            reason = (
                f"There is no baseline {self._quote_path(path)}, so nothing was compared. Create it on your "
                f"machine ({self.accept_command}) and commit it.{self._ask_for_similar(path)}"
            )
            finding = GuardFinding(Guard.NO_BASELINE, reason, fails=required)
            verdict = self._build_uncompared_verdict(GateStatus.NO_BASELINE, result, path, None, finding)
            return self._save_verdict(verdict)
        # Before writing: the new file itself would be the most similar one.
        suggestion = self._ask_for_similar(path)
        self._write_baseline(result, path)
        created = f"Created the baseline {self._quote_path(path)} from this run."
        if not self.config.bootstrap_passes:
            finding = GuardFinding(
                Guard.NO_BASELINE, f"{created} Review and commit it, then run again.{suggestion}"
            )
            return self._build_uncompared_verdict(GateStatus.NO_BASELINE, result, path, None, finding)
        note = f"{created} Review and commit it: later runs are compared with it.{suggestion}"
        return self._build_uncompared_verdict(GateStatus.PASS, result, path, note)

    def _ask_for_similar(self, path: Path) -> str:
        similar = self.environment.find_similar_baseline(path)
        return f" There is a file {self._quote_path(similar)}; did you mean that one?" if similar else ""

    def _quote_path(self, path: Path) -> str:
        """Return a path quoted for a shell command."""
        return quote(self.environment.display_path(path))

    def _write_baseline(self, result: ExperimentResult, path: Path) -> None:
        config, name = self.config, self._name(result)
        try:
            earlier = read_baseline(path)
        except ConfigurationError:
            pass  # a missing or damaged file belongs to no gate
        else:
            check_owner(earlier, path, name)
        baseline = baseline_of(result, pairing=config.pairing, allow_errors=config.allow_errors, gate=name)
        write_baseline(baseline, path)
        # An earlier verdict is about an earlier baseline.
        with contextlib.suppress(OSError):
            self._verdict_path(self.environment.gate_name(path)).unlink()

    def _build_uncompared_verdict(
        self,
        status: GateStatus,
        result: ExperimentResult,
        path: Path,
        note: str | None,
        finding: GuardFinding | None = None,
    ) -> GateVerdict:
        return GateVerdict(
            status=status,
            name=self.environment.gate_name(path),
            config=self.config,
            candidate_pass_rate=result.pass_rate,
            no_baseline=finding,
            baseline=self.environment.display_path(path),
            accept_command=self.accept_command,
            note=note,
        )

    def _save_verdict(self, verdict: GateVerdict) -> GateVerdict:
        """Write the verdict file and return the verdict, also if writing fails."""
        try:
            write_verdict(verdict, self._verdict_path(verdict.name))
        except OSError as error:
            _log.warning(
                "%s",
                escape_control_characters(f"The verdict could not be written to {self.verdict_dir}: {error}"),
            )
        return verdict

    def _verdict_path(self, name: str) -> Path:
        return self.verdict_dir / f"{file_stem(name)}.json"


def decide_and_confirm(
    baseline: Snapshot,
    candidate: Snapshot,
    config: GateConfig,
    pairing: Pairing | None = None,
    rerun: Rerun | None = None,
    noise: NoiseMeasurements | None = None,
) -> Decision:
    """Return which guards fire, after running suspicious items again if there is a way to."""
    decision = decide(baseline, candidate, config, pairing=pairing, noise=noise)
    times = config.confirm or (RERUNS if config.severity == "auto" else 0)
    suspects = [*decision.drops, *decision.unclear]
    if not suspects or rerun is None or not times:
        return decision
    # Reruns cost calls of the application and of judges.
    if not decision.rests_on_drops:
        note = "Suspicious items were not run again, as the verdict does not depend on them."
        return replace(decision, warnings=(*decision.warnings, note))
    items = pair(baseline, candidate, config.pairing if pairing is None else pairing.value).candidate
    reruns = rerun_items(suspects, items, rerun, times=times)
    # From the start: reruns also tell more of how much the scores vary.
    return decide(baseline, candidate, config, pairing=pairing, reruns=reruns, noise=noise)


def build_verdict(
    decision: Decision,
    config: GateConfig,
    *,
    name: str,
    baseline: str | None = None,
    accept_command: str | None = None,
    data_lines: Mapping[str, DataLine] | None = None,
) -> GateVerdict:
    """Return the verdict that a decision leads to."""
    status = GateStatus.PASS
    if decision.is_failing:
        status = GateStatus.FAIL
    elif decision.is_inconclusive:
        status = GateStatus.INCONCLUSIVE
    return GateVerdict(
        status=status,
        name=name,
        config=config,
        decision=decision,
        baseline=baseline,
        accept_command=accept_command,
        data_lines=data_lines or {},
    )


def assert_no_regression(
    result: ExperimentResult,
    name: str | Path | None = None,
    *,
    config: GateConfig | None = None,
    root: Path | None = None,
    verdict_dir: Path | None = None,
    accept_command: str | None = None,
    rerun: Rerun | None = None,
    noise: str | Path | NoiseReport | None = None,
) -> GateVerdict:
    """Return the verdict of a `RegressionGate` if it passes; takes the same arguments.

    A `BaselineWarning` says that nothing was compared, since the baseline was created, updated or missing;
    an `InconclusiveWarning` says that the verdict is INCONCLUSIVE.

    Raises:
        RegressionError: an `AssertionError` that says why, if it does not pass.
        ConfigurationError: for a baseline that cannot be read or written, or does not fit.

    Example:
        >>> def test_answers():
        ...     result = evaluate(dataset, answer, [ExactMatch()])
        ...     assert_no_regression(result, "answers")
    """
    __tracebackhide__ = True
    gate = RegressionGate(
        name,
        config=config,
        root=root,
        verdict_dir=verdict_dir,
        accept_command=accept_command,
        rerun=rerun,
        noise=noise,
    )
    return _require_pass(gate._verdict(result), stacklevel=3)


def _require_pass(verdict: GateVerdict, *, stacklevel: int) -> GateVerdict:
    __tracebackhide__ = True
    if not verdict.passed:
        raise RegressionError(verdict.message, verdict)
    if verdict.not_compared:
        _warn(verdict.not_compared, BaselineWarning, stacklevel=stacklevel + 1)
    elif verdict.status is GateStatus.INCONCLUSIVE:
        _warn(verdict.message, InconclusiveWarning, stacklevel=stacklevel + 1)
    return verdict


def _warn(message: str, category: type[Warning], *, stacklevel: int) -> None:
    """Warn, or log if warnings are errors: a run that passes and was paid for must not be lost."""
    try:
        warnings.warn(escape_control_characters(message), category, stacklevel=stacklevel)
    except category as warning:
        _log.warning("%s", warning)


def write_verdict(verdict: GateVerdict, path: Path) -> None:
    """Write a verdict as compact JSON. Raises `OSError`."""
    text = json.dumps(verdict.tree(), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    keep_out_of_git(path.parent)
    write_atomically(path, text + "\n")
