"""The regression gate: compares a result with its baseline file, and keeps the file."""

from __future__ import annotations

import contextlib
import json
import logging
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Final

from dokimos.comparison.config import Pairing
from dokimos.comparison.pairing import pair
from dokimos.comparison.snapshot import Snapshot
from dokimos.core.results import ExperimentResult
from dokimos.errors import BaselineWarning, ConfigurationError, InconclusiveWarning, RegressionError
from dokimos.gate.baseline import Baseline, baseline_of, read_baseline, write_baseline
from dokimos.gate.config import GateConfig
from dokimos.gate.confirming import Rerun, run_again
from dokimos.gate.decision import Decision, Fired, Guard, decide
from dokimos.gate.item_guards import RERUNS
from dokimos.gate.places import Surroundings, file_stem, keep_out_of_git, write_atomically
from dokimos.gate.variation import NoiseFigures
from dokimos.gate.verdict import GateStatus, GateVerdict
from dokimos.runtime.terminal_text import escape_control_characters

if TYPE_CHECKING:
    from dokimos.gate.noise import NoiseReport

NOISE_SUFFIX: Final = ".noise.json"
_log: Final = logging.getLogger("dokimos.gate")


@dataclass(frozen=True, init=False)
class RegressionGate:
    """Says whether a result is worse than its committed baseline.

    Args:
        baseline: A name for a file in `tests/baselines`, a path, or None for the name of the experiment.
        config: The gate's options.
        root: The project; unless given, pytest's rootdir, else the nearest folder up with a `pyproject.toml`.
        verdict_dir: Where verdicts are written; `.dokimos/verdicts` unless given.
        accept_command: The command that accepts a change; found out unless given.
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
    surroundings: Surroundings
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
        surroundings = Surroundings.here(root)
        check_rerun(config, rerun)
        values = {
            "baseline": baseline,
            "config": config,
            "surroundings": surroundings,
            "verdict_dir": verdict_dir or surroundings.verdict_dir,
            "accept_command": accept_command or surroundings.accept_command(),
            "rerun": rerun,
            "noise": Path(noise) if isinstance(noise, str) else noise,
        }
        for attribute, value in values.items():
            object.__setattr__(self, attribute, value)

    def check(self, result: ExperimentResult) -> GateVerdict:
        """Return the verdict on a result; write or update the baseline where that is what is to be done.

        Where nothing was compared, the logger `dokimos.gate` says why, and so does the verdict's message.

        Raises:
            ConfigurationError: for a baseline that cannot be read or written, or does not fit.
        """
        verdict = self._verdict(result)
        if verdict.not_compared:
            _log.warning("%s", escape_control_characters(verdict.not_compared))
        return verdict

    def _verdict(self, result: ExperimentResult) -> GateVerdict:
        check_whole(result.provenance.partial)
        path = self.surroundings.baseline_path(self.baseline, result.name)
        if self.config.update_baseline or self.surroundings.wants_update:
            return self._updated(result, path)
        if not path.exists():
            return self._without_baseline(result, path)
        baseline = read_baseline(path)
        check_owner(baseline, path, self._name(result))
        check_pairing(baseline, path, self.config)
        candidate = Snapshot.of(result)
        noise = self._figures(path)
        decision = decided(baseline.snapshot, candidate, self.config, baseline.pairing, self.rerun, noise)
        return self._kept(
            verdict_of(
                decision,
                self.config,
                name=self.surroundings.gate_name(path),
                baseline=self.surroundings.shown(path),
                accept_command=self.accept_command,
            )
        )

    def check_against(self, result: ExperimentResult, run: Snapshot) -> GateVerdict:
        """Return the verdict on a result, compared with a run instead of the baseline file.

        Raises:
            ConfigurationError: where the items of the two cannot be paired.
        """
        for partial in (result.provenance.partial, run.partial):
            check_whole(partial)
        decision = decided(run, Snapshot.of(result), self.config, None, self.rerun, self._figures())
        # Without the run's id: comments on a pull request go by this name, and each is to be kept up to date.
        name = f"{result.name} against {'another run' if run.name == result.name else run.name}"
        return self._kept(verdict_of(decision, self.config, name=name, baseline=run.label))

    def verify(self, result: ExperimentResult) -> GateVerdict:
        """Return the verdict if it passes.

        A `BaselineWarning` says that nothing was compared, since the baseline was created, updated or
        missing; an `InconclusiveWarning` says that the verdict is INCONCLUSIVE.

        Raises:
            RegressionError: with the verdict, if it does not pass.
        """
        __tracebackhide__ = True
        return _verified(self._verdict(result), stacklevel=3)

    def _figures(self, baseline: Path | None = None) -> NoiseFigures | None:
        """Return what is known of the noise of the unchanged system."""
        if self.noise is not None:
            return NoiseFigures.read(self.noise) if isinstance(self.noise, Path) else self.noise.figures
        beside = None if baseline is None else baseline.with_suffix(NOISE_SUFFIX)
        return NoiseFigures.read(beside) if beside is not None and beside.is_file() else None

    def _name(self, result: ExperimentResult) -> str | None:
        """Return the name that the baseline's file is found by, None where its path is given."""
        if isinstance(self.baseline, Path):
            return None
        return result.name if self.baseline is None else self.baseline

    def _updated(self, result: ExperimentResult, path: Path) -> GateVerdict:
        self._write(result, path)
        note = f"Updated the baseline {self._file(path)} to this run. Review the change and commit it."
        return self._noted(GateStatus.PASS, result, path, note)

    def _without_baseline(self, result: ExperimentResult, path: Path) -> GateVerdict:
        required = self.config.on_no_baseline == "fail"
        if self.surroundings.in_ci or required:
            reason = (
                f"There is no baseline {self._file(path)}, so nothing was compared. Create it on your "
                f"machine ({self.accept_command}) and commit it."
            )
            fired = Fired(Guard.NO_BASELINE, reason, fails=required)
            return self._kept(self._noted(GateStatus.NO_BASELINE, result, path, None, fired))
        self._write(result, path)
        created = f"Created the baseline {self._file(path)} from this run."
        if not self.config.bootstrap_passes:
            fired = Fired(Guard.NO_BASELINE, f"{created} Review and commit it, then run again.")
            return self._noted(GateStatus.NO_BASELINE, result, path, None, fired)
        note = f"{created} Review and commit it: later runs are compared with it."
        return self._noted(GateStatus.PASS, result, path, note)

    def _file(self, path: Path) -> str:
        """Return a path as it can be copied into a command."""
        return quote(self.surroundings.shown(path))

    def _write(self, result: ExperimentResult, path: Path) -> None:
        config, name = self.config, self._name(result)
        try:
            earlier = read_baseline(path)
        except ConfigurationError:
            pass  # what is missing or damaged is nobody's
        else:
            check_owner(earlier, path, name)
        baseline = baseline_of(result, pairing=config.pairing, allow_errors=config.allow_errors, gate=name)
        write_baseline(baseline, path)
        # An earlier verdict speaks of an earlier baseline.
        with contextlib.suppress(OSError):
            self._verdict_path(self.surroundings.gate_name(path)).unlink()

    def _noted(
        self,
        status: GateStatus,
        result: ExperimentResult,
        path: Path,
        note: str | None,
        fired: Fired | None = None,
    ) -> GateVerdict:
        return GateVerdict(
            status=status,
            name=self.surroundings.gate_name(path),
            config=self.config,
            candidate_pass_rate=result.pass_rate,
            no_baseline=fired,
            baseline=self.surroundings.shown(path),
            accept_command=self.accept_command,
            note=note,
        )

    def _kept(self, verdict: GateVerdict) -> GateVerdict:
        """Write the verdict file and return the verdict, which must not be hidden if that fails."""
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
    return _verified(gate._verdict(result), stacklevel=3)


def _verified(verdict: GateVerdict, *, stacklevel: int) -> GateVerdict:
    __tracebackhide__ = True
    if not verdict.passed:
        raise RegressionError(verdict.message, verdict)
    if verdict.not_compared:
        _warn(verdict.not_compared, BaselineWarning, stacklevel=stacklevel + 1)
    elif verdict.status is GateStatus.INCONCLUSIVE:
        _warn(verdict.message, InconclusiveWarning, stacklevel=stacklevel + 1)
    return verdict


def _warn(message: str, category: type[Warning], *, stacklevel: int) -> None:
    """Warn; where warnings are errors, log instead: a run that passes and was paid for must not be lost."""
    try:
        warnings.warn(escape_control_characters(message), category, stacklevel=stacklevel)
    except category as warning:
        _log.warning("%s", warning)


def decided(
    baseline: Snapshot,
    candidate: Snapshot,
    config: GateConfig,
    pairing: Pairing | None = None,
    rerun: Rerun | None = None,
    noise: NoiseFigures | None = None,
) -> Decision:
    """Decide, and decide again with what running suspicious items again gave."""
    first = decide(baseline, candidate, config, pairing=pairing, noise=noise)
    times = config.confirm or (RERUNS if config.severity == "auto" else 0)
    suspects = [*first.drops, *first.unclear]
    if not suspects or rerun is None or not times:
        return first
    if not first.rests_on_drops:
        note = "Suspicious items were not run again, as the verdict does not depend on them."
        return replace(first, warnings=(*first.warnings, note))
    items = pair(baseline, candidate, config.pairing if pairing is None else pairing.value).candidate
    reruns = run_again(suspects, items, rerun, times=times)
    return decide(baseline, candidate, config, pairing=pairing, reruns=reruns, noise=noise)


def verdict_of(
    decision: Decision,
    config: GateConfig,
    *,
    name: str,
    baseline: str | None = None,
    accept_command: str | None = None,
) -> GateVerdict:
    """Return the verdict that follows from a decision."""
    status = GateStatus.PASS
    if decision.failed:
        status = GateStatus.FAIL
    elif decision.inconclusive:
        status = GateStatus.INCONCLUSIVE
    return GateVerdict(
        status=status,
        name=name,
        config=config,
        decision=decision,
        baseline=baseline,
        accept_command=accept_command,
    )


def write_verdict(verdict: GateVerdict, path: Path) -> None:
    """Write a verdict as compact JSON. Raises `OSError`."""
    text = json.dumps(verdict.tree(), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    keep_out_of_git(path.parent)
    write_atomically(path, text + "\n")


def check_rerun(config: GateConfig, rerun: Rerun | None) -> None:
    """Raise `ConfigurationError` where suspicious items are to be run again and nobody says how."""
    if config.confirm and rerun is None:
        raise ConfigurationError(
            f"confirm={config.confirm} runs suspicious items again: give rerun=, the experiment or a "
            "function that takes examples and returns their result."
        )


def check_whole(partial: str | None) -> None:
    """Raise `ConfigurationError` for a run of chosen items, which says nothing of the whole data set."""
    if partial is not None:
        raise ConfigurationError(
            f"A gate compares whole runs, and this one is a part ({partial}). Run the whole data set first, "
            "without --failed or --estimate."
        )


def check_owner(baseline: Baseline, path: Path, name: str | None) -> None:
    """Raise `ConfigurationError` where a file is the baseline of a gate with another name.

    Names differ in more letters than the names of files do.
    """
    if name is not None and baseline.gate not in (None, name):
        raise ConfigurationError(
            f"The baseline {quote(str(path))} belongs to the gate {baseline.gate!r}, and the name {name!r} "
            "makes the same file. Give one of the two another name; after renaming a gate, delete the file."
        )


def check_pairing(baseline: Baseline, path: Path, config: GateConfig) -> None:
    """Raise `ConfigurationError` where the configuration contradicts how the baseline pairs items."""
    if config.pairing not in ("auto", baseline.pairing.value):
        raise ConfigurationError(
            f"The baseline {quote(str(path))} pairs items by {baseline.pairing.value!r} and the "
            f"configuration says {config.pairing!r}. Write a new baseline "
            "(DOKIMOS_UPDATE_BASELINE=true), or configure the same pairing."
        )
