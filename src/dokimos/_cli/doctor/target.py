"""What a suite or an experiment needs of the machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dokimos._cli.doctor.finding import Finding
from dokimos.errors import DokimosError

if TYPE_CHECKING:
    from dokimos.evaluators._base import Evaluator
    from dokimos.judges._provider import HttpJudge

# Values of users may refer to each other in circles.
DEEPEST: Final = 6
METEOR: Final = "meteor"


@dataclass
class Needs:
    """What was found in a target."""

    extras: set[str] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)
    urls: list[str] = field(default_factory=list)
    judges: list[HttpJudge] = field(default_factory=list)
    wordnet: bool = False
    faults: list[Finding] = field(default_factory=list)


def find_needs(target: str) -> Needs:
    """Load a target and return what it needs; what keeps it from being loaded is a fault."""
    from dokimos._cli.target_experiment import is_suite

    needs = Needs()
    try:
        if is_suite(target):
            _look_into_suite(target, needs)
        else:
            from dokimos._cli.targets import load_experiment

            experiment = load_experiment(target)
            # A function of the example cannot be asked without examples.
            if not callable(experiment.evaluators):
                _look_into(experiment.evaluators, needs)
    except DokimosError as error:
        needs.faults.append(_fault(target, error))
    return needs


def _fault(target: str, error: DokimosError) -> Finding:
    return Finding(
        group="target", name=Path(target).name, state="fault", found=str(error), is_needed=True,
        remedy="correct it; dokimos validate says more of a suite",
    )  # fmt: skip


def _look_into_suite(target: str, needs: Needs) -> None:
    from dokimos.suites._environment import export_dotenv
    from dokimos.suites._loader import load_suite, read_document
    from dokimos.suites._validation import validate_document

    export_dotenv(Path(target).resolve().parent)
    document = read_document(target)
    agent = validate_document(document).agent
    if agent is not None and agent.url is not None:
        needs.urls.append(agent.url)
    suite = load_suite(target)
    needs.keys.update(name for name, _ in suite.keys)
    for case in suite.cases:
        _look_into(case.evaluators, needs)


def _look_into(evaluators: Iterable[Evaluator], needs: Needs) -> None:
    from dokimos.evaluators._base import Evaluator
    from dokimos.evaluators.registry import describe
    from dokimos.judges._provider import HttpJudge

    for part in _parts(evaluators, 0):
        if isinstance(part, HttpJudge):
            needs.judges.append(part)
            if part.api_key is None and (variable := part.key_variable()):
                needs.keys.add(variable)
        elif isinstance(part, Evaluator) and (name := part.info().registry_name):
            extra = describe(name).extra
            needs.extras.update([extra] if extra else [])
            needs.wordnet = needs.wordnet or (name == METEOR and getattr(part, "synonyms", True))


def _parts(value: object, depth: int) -> Iterator[Any]:
    """Yield the evaluators and judges in a value, and in what they are made of."""
    if depth > DEEPEST or isinstance(value, str | bytes | int | float | type(None)):
        return
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from _parts(each, depth)
    elif is_dataclass(value) and not isinstance(value, type):
        yield value
        for one in fields(value):
            yield from _parts(getattr(value, one.name, None), depth + 1)
