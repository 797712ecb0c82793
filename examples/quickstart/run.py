"""Score what a small local model answered: 70 function calls and 46 questions over a knowledge base.

The last 12 of the questions are judged by a model too, whose replies are on a cassette: nothing is asked.

python examples/quickstart/run.py [FOLDER]    # reports go to out/quickstart unless FOLDER is given
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dokimos import (
    Dataset,
    EvalTestCase,
    Example,
    Experiment,
    ExperimentResult,
    Score,
    evaluator,
    export,
    recorded_task,
)
from dokimos.evaluators import (
    MRR,
    NDCG,
    Equality,
    Evaluator,
    ExactMatch,
    JsonSchema,
    Latency,
    Length,
    Levenshtein,
    LLMJudge,
    Numeric,
    Precision,
    Recall,
    Rouge,
    StructuralMatch,
    TokenF1,
    Tokens,
)
from dokimos.judges import CassetteMode
from dokimos.reporting import make_console, print_result

DATA = Path(__file__).parent / "data"
CASSETTE = DATA / "judge.cassette.jsonl"
JUDGE = "http://127.0.0.1:8970/v1#qwen2.5-coder-1.5b"
FORMATS = ("html", "json", "md", "csv", "junit.xml")


@evaluator(name="Function Name", threshold=1.0, requires=("actual_output", "expected_output"))
def function_name(case: EvalTestCase) -> Score:
    """Passes when the right function was called."""
    expected = case.expected_output_as(dict)["name"]
    called = json.loads(case.actual_output).get("name")
    return Score(float(called == expected), f"Called {called!r}, expected {expected!r}.")


@evaluator(name="Accepted Arguments", threshold=1.0, requires=("actual_output", "expected_outputs.accepted"))
def accepted_arguments(case: EvalTestCase) -> Score:
    """Share of the arguments that are among the accepted values; "" among them means: may be left out."""
    given = json.loads(case.actual_output).get("arguments", {})
    accepted = case.expected_outputs["accepted"]
    wrong = [name for name, values in accepted.items() if not is_accepted(given, name, values)]
    wrong += [name for name in given if name not in accepted]
    total = len(accepted.keys() | given.keys())
    if not wrong:
        return Score(1.0, "All arguments are accepted.")
    return Score(
        1 - len(wrong) / total, f"Not accepted: {', '.join(f'{n}={given.get(n)!r}' for n in wrong)}."
    )


def is_accepted(given: dict[str, Any], name: str, values: list[Any]) -> bool:
    if name not in given:
        return "" in values
    return any(same(given[name], value) for value in values)


def same(given: Any, accepted: Any) -> bool:
    """Compare as the data's authors do: text without regard to case, and nested lists of accepted values."""
    if isinstance(given, str) and isinstance(accepted, str):
        return given.strip().lower() == accepted.strip().lower()
    if isinstance(given, list) and isinstance(accepted, list):
        return len(given) == len(accepted) and all(map(same, given, accepted))
    if isinstance(given, dict) and isinstance(accepted, dict):
        return all(is_accepted(given, name, values) for name, values in accepted.items())
    return type(given) is not bool and given == accepted


def call_schema(tools: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """JSON Schema of a call of any one of the tools."""
    return {
        "oneOf": [
            {
                "type": "object",
                "properties": {"name": {"const": tool["name"]}, "arguments": tool["inputSchema"]},
                "required": ["name", "arguments"],
            }
            for tool in tools
        ]
    }


def call_evaluators(example: Example) -> list[Evaluator]:
    """Each case has tools of its own, so it gets a schema of its own."""
    return [
        JsonSchema(schema=call_schema(example.metadata["tools"]), name="Call Schema"),
        function_name,
        accepted_arguments,
        StructuralMatch(threshold=None),
        Latency(max_ms=20_000),
        Tokens(max_tokens=120, kind="output"),
    ]


def answer_evaluators(example: Example) -> list[Evaluator]:
    """Numbers are compared as numbers, everything else as text."""
    if example.metadata["kind"] == "number":
        correct: Evaluator = Numeric(accept_thousands_separators=True)
    else:
        correct = Equality(ignore_case=True, strip_punctuation=True, strip_whitespace=True)
    return [
        correct,
        TokenF1(),
        ExactMatch(threshold=None),
        Rouge(),
        Levenshtein(threshold=None),
        Length(max=60),
        Recall(threshold=1.0),
        Precision(threshold=None),
        MRR(threshold=None),
        NDCG(threshold=None),
    ]


def judged_answers(mode: CassetteMode = "replay") -> Experiment:
    """A judge's view of the last answers; `record_judge.py` records it."""
    answers = Dataset.from_jsonl(DATA / "support_answers.jsonl")
    same_fact = LLMJudge(
        name="Same Fact",
        criteria="The actual output states the same fact as the expected output.",
        judge=JUDGE,
    )
    return Experiment(
        answers[-12:],
        recorded_task(),
        [same_fact, Equality(ignore_case=True, strip_punctuation=True, threshold=None)],
        name="judged answers",
        description="The same answers, judged by the model that gave them.",
        journal=False,
        cassette=CASSETTE,
        cassette_mode=mode,
    )


def recorded(file: str, evaluators: Any, *, name: str, description: str) -> Experiment:
    """Score the answers of a file under `data`; nothing is asked."""
    model = json.loads((DATA / "provenance.json").read_text(encoding="utf-8"))["model"]
    return Experiment(
        Dataset.from_jsonl(DATA / file),
        recorded_task(),
        evaluators,
        name=name,
        description=description,
        metadata={"model": model},
        journal=False,
    )


def main(folder: Path) -> None:
    experiments = {
        "function-calling": recorded(
            "function_calling.jsonl",
            call_evaluators,
            name="function calling",
            description="One call each, from the Berkeley function-calling data.",
        ),
        "support-answers": recorded(
            "support_answers.jsonl",
            answer_evaluators,
            name="support answers",
            description="Short answers over a small knowledge base.",
        ),
        "judged-answers": judged_answers(),
    }
    for name, experiment in experiments.items():
        result = experiment.run()
        print_result(result, make_console())
        write_reports(result, folder / name)


def write_reports(result: ExperimentResult, stem: Path) -> None:
    paths = [export(result, f"{stem}.{extension}") for extension in FORMATS]
    print(f"  report  {paths[0].resolve()}")
    print(f"  also    {' '.join(path.name for path in paths[1:])}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("out") / "quickstart")
