"""A suite that has been loaded, and the experiment that it is."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dokimos.datasets._dataset import Dataset
from dokimos.errors import ConfigurationError
from dokimos.experiment._experiment import Experiment
from dokimos.suites._case_plan import CasePlan
from dokimos.suites._task import SuiteTask

if TYPE_CHECKING:
    from dokimos._core.example import Example
    from dokimos.evaluators._base import Evaluator
    from dokimos.judges._budget import Budget
    from dokimos.suites._targets import Application


@dataclass(frozen=True, kw_only=True)
class Suite:
    """An application, its cases and their evaluators; made by `load_suite`."""

    path: Path
    name: str
    application: Application = field(repr=False)
    cases: tuple[CasePlan, ...] = ()
    description: str = ""
    experiment_name: str = ""
    """The experiment that runs belong to; empty where that has the name of the suite."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """What the file says that runs keep."""
    agent: str = ""
    """What is tested, as the file names it."""
    identity: str = ""
    """What tells the agent from another where its name does not say."""
    answers_elsewhere: bool = False
    """Whether the agent is an endpoint, a command, or has tools on servers."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """What a run keeps of the agent: the model and the version of the instructions of a declared one."""
    budget: Budget | None = None
    """What a run may spend, agent and judges together."""
    timeout: float = 60.0
    """Seconds that the application may take for one reply."""
    parallelism: int = 1
    retries: int = 0
    quiet: bool = False
    verbose: bool = False
    keys: tuple[tuple[str, str], ...] = ()
    """Environment variables that hold the keys of judges, each with the judge that needs it."""
    warnings: tuple[str, ...] = ()
    """What the file says that is out of date or has no effect."""

    @property
    def cases_to_run(self) -> tuple[CasePlan, ...]:
        """The cases that are not marked as skip."""
        return tuple(case for case in self.cases if case.skip is None)

    @property
    def cases_to_skip(self) -> tuple[CasePlan, ...]:
        """The cases that are left out."""
        return tuple(case for case in self.cases if case.skip is not None)

    def experiment(self) -> Experiment:
        """Return the suite as an experiment; each example has the evaluators of its case.

        Raises:
            ConfigurationError: when there is no case to run.
        """
        if not self.cases_to_run:
            raise ConfigurationError(f"{self.path} has no test cases to run.")
        by_id = {example.id: case for case in self.cases_to_run for example in case.examples()}
        examples = [example for case in self.cases_to_run for example in case.examples()]
        return Experiment(
            Dataset(examples, name=self.name, description=self.description),
            SuiteTask(
                by_id,
                self.application,
                timeout=self.timeout,
                identity=self.identity or self.agent,
                answers_elsewhere=self.answers_elsewhere,
            ),
            CaseEvaluators(by_id),
            name=self.experiment_name or self.name,
            description=self.description,
            metadata=self._metadata(),
            parallelism=self.parallelism,
            retries=self.retries,
            budget=self.budget,
        )

    def check_keys(self) -> None:
        """Raise `ConfigurationError` where the environment lacks the key of a judge."""
        missing = [
            f"{judge} needs a key: set {name}" for name, judge in self.keys if not os.environ.get(name)
        ]
        if missing:
            raise ConfigurationError(f"{self.path}: {'; '.join(missing)}, or give api_key in its model.")

    def _metadata(self) -> dict[str, Any]:
        # Of what the file says nothing stands for what was run.
        own = {"suite": self.path.name, "agent": self.agent, **self.about}
        metadata: dict[str, Any] = {**self.metadata, **own}
        if self.cases_to_skip:
            metadata["skipped"] = {case.id: case.skip for case in self.cases_to_skip}
        return metadata


@dataclass(frozen=True)
class CaseEvaluators:
    """Gives each example the evaluators of its case."""

    cases: dict[str | None, CasePlan]

    def __call__(self, example: Example) -> Sequence[Evaluator]:
        return self.cases[example.id].evaluators
