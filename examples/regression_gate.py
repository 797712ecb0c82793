"""A regression gate from start to end: a baseline, an unchanged run and a broken one.

python examples/regression_gate.py
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from dokimos import (
    Dataset,
    Example,
    Experiment,
    ExperimentResult,
    GateConfig,
    RegressionGate,
    compare_runs,
)
from dokimos.comparison import export_comparison
from dokimos.evaluators import ExactMatch, TokenF1
from dokimos.gate import noise

CAPITALS = {
    "France": "Paris", "Japan": "Tokyo", "Italy": "Rome", "Kenya": "Nairobi", "Peru": "Lima",
    "Norway": "Oslo", "Egypt": "Cairo", "Cuba": "Havana", "Chile": "Santiago", "Greece": "Athens",
    "Nepal": "Kathmandu", "Ghana": "Accra", "Iran": "Tehran", "Iraq": "Baghdad", "Spain": "Madrid",
    "Austria": "Vienna",
}  # fmt: skip
QUESTIONS = Dataset(
    [Example.of(f"What is the capital of {land}?", city, id=land.lower()) for land, city in CAPITALS.items()],
    name="capitals",
)


def good(question: str) -> str:
    """The bot as it is."""
    return CAPITALS[question.removeprefix("What is the capital of ").removesuffix("?")]


def chatty(question: str) -> str:
    """The bot after somebody changed its prompt."""
    city = good(question)
    return city if city[0] < "L" else f"It is {city}, of course!"


def run(bot: Callable[[str], str]) -> ExperimentResult:
    experiment = Experiment(QUESTIONS, bot, [ExactMatch(), TokenF1()], name="capitals")
    return experiment.run(journal=False, progress=False)


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="dokimos-gate-"))
    config = GateConfig(severity_margin=0.2)
    baseline = folder / "baselines" / "capitals.json"

    before, after = run(good), run(chatty)
    RegressionGate(baseline, config=replace(config, update_baseline=True), root=folder).check(before)
    gate = RegressionGate(baseline, config=config, root=folder)

    unchanged = gate.check(run(good))
    print(unchanged.message, end="\n\n")
    assert unchanged.passed

    broken = gate.check(after)
    print(broken.message, end="\n\n")
    assert not broken.passed

    report = export_comparison(compare_runs(before, after), folder / "diff.html")
    print(f"Item by item: {report}")

    several = Experiment(QUESTIONS, good, [ExactMatch()], name="capitals", runs=3)
    quiet = noise(several.run(journal=False, progress=False))
    print(f"Guard 2 would fire on {quiet.guard2[0].fire_rate:.0%} of unchanged runs.")


if __name__ == "__main__":
    main()
