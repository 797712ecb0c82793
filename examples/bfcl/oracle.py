"""Compare our verdicts with those of the leaderboard's own checker, call by call.

python examples/bfcl/oracle.py --wheel bfcl_eval-*.whl

Beside the right answers and the seeded faults, each argument of a right answer is written in other ways (in
another case, in quotes, as text ...), of which the two are known to think differently. The checker is loaded
from the wheel; what it imports of the providers of models is replaced by empty modules.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

from bfcl import CATEGORIES, LIVE_CATEGORIES, load, raw_rows, true_calls, wheel_data
from perturbations import PERTURBATIONS, Calls

from dokimos import EvalTestCase, Example, ToolCall
from dokimos.evaluators import ToolCorrectness

OURS = ToolCorrectness(match="names_and_args", arguments="exact")
_STUBS = {
    "bfcl_eval.constants.model_config": "MODEL_CONFIG_MAPPING",
    "bfcl_eval.eval_checker.ast_eval.type_convertor.java_type_converter": "java_type_converter",
    "bfcl_eval.eval_checker.ast_eval.type_convertor.js_type_converter": "js_type_converter",
}

Rewrite = Callable[[Any], Any]
"""Returns a value in another writing, itself where there is none."""


def quoted(value: Any) -> Any:
    return f'"{value}"' if isinstance(value, str) else value


def in_capitals(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


def without_spaces(value: Any) -> Any:
    return value.replace(" ", "") if isinstance(value, str) else value


def as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int | float) else value


def as_float(value: Any) -> Any:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def as_whole_number(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def as_bit(value: Any) -> Any:
    return int(value) if isinstance(value, bool) else value


def backwards(value: Any) -> Any:
    return value[::-1] if isinstance(value, list) else value


def as_null(value: Any) -> Any:
    return None


WRITINGS: tuple[Rewrite, ...] = (
    quoted, in_capitals, without_spaces, as_text, as_float, as_whole_number, as_bit, backwards, as_null,
)  # fmt: skip


def checker(wheel: str) -> Callable[[dict[str, Any], list[dict[str, Any]], Calls, str], bool]:
    """Return the leaderboard's checker: of the row, its answer, the calls and the category."""
    for name, attribute in _STUBS.items():
        stub = ModuleType(name)
        models = SimpleNamespace(underscore_to_dot=False)
        setattr(stub, attribute, {"any": models})
        sys.modules[name] = stub
    sys.path.insert(0, wheel)
    from bfcl_eval.constants.enums import Language
    from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker

    def check(row: dict[str, Any], answer: list[dict[str, Any]], calls: Calls, category: str) -> bool:
        made = [{call.name: dict(call.arguments)} for call in calls]
        return bool(ast_checker(row["function"], made, answer, Language.PYTHON, category, "any").get("valid"))

    return check


def ours(example: Example, calls: Calls) -> bool:
    """Say whether every expected call was made with accepted arguments, and no other."""
    case = EvalTestCase({}, {"toolCalls": list(calls)}, expected_outputs=example.expected_outputs)
    result = OURS.evaluate(case)
    assert result.error is None, result.error
    return result.score == 1


def variants(example: Example, seed: int) -> Iterator[tuple[str, list[ToolCall]]]:
    """Yield the right calls, those with a seeded fault, and those with an argument in another writing."""
    right = true_calls(example)
    yield "right", right
    for name, (perturb, _) in PERTURBATIONS.items():
        calls = perturb(right, example, random.Random(f"{seed}/{name}/{example.id}"))
        if calls is not None:
            yield name, calls
    for index, call in enumerate(right):
        for argument, value in call.arguments.items():
            for rewrite in WRITINGS:
                other = rewrite(value)
                if repr(other) != repr(value):
                    changed = replace(call, arguments={**call.arguments, argument: other})
                    yield rewrite.__name__.replace("_", " "), [*right[:index], changed, *right[index + 1 :]]
        expected = example.expected_outputs["toolCalls"][index].arguments
        for argument, form in expected.items():
            if "optional" in form:
                given = replace(call, arguments={**call.arguments, argument: ""})
                yield "blank for optional", [*right[:index], given, *right[index + 1 :]]


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare verdicts with the leaderboard's checker.")
    parser.add_argument("--wheel", required=True, help="a downloaded wheel of bfcl-eval")
    parser.add_argument("--seed", type=int, default=7, help="of the perturbations")
    parser.add_argument("--show", type=int, default=0, help="so many disagreements of each kind")
    options = parser.parse_args()
    check, read = checker(options.wheel), wheel_data(options.wheel)
    total: Counter[str] = Counter()
    apart: dict[tuple[str, str], list[str]] = {}
    for category in (*CATEGORIES, *LIVE_CATEGORIES):
        rows = {row["id"]: (row, answer) for row, answer in raw_rows(read, category)}
        for example in load(read, category):
            row, answer = rows[str(example.id)]
            for kind, calls in variants(example, options.seed):
                total[kind] += 1
                try:
                    theirs = "accepts" if check(row, answer, calls, category) else "refuses"
                except Exception as error:  # of a kind of value that the checker does not reckon with
                    theirs = f"raises {type(error).__name__}"
                mine = "accepts" if ours(example, calls) else "refuses"
                if mine != theirs:
                    made = "; ".join(f"{call.name}({call.arguments})" for call in calls)
                    apart.setdefault((kind, theirs), []).append(f"{example.id}: {made:.200}")
    print("| calls | compared | they accept, we refuse | they refuse, we accept | they raise |")
    print("|---|---|---|---|---|")
    for kind, count in total.items():
        raised = sum(len(found) for (k, verdict), found in apart.items() if k == kind and "raises" in verdict)
        cells = [len(apart.get((kind, verdict), ())) for verdict in ("accepts", "refuses")]
        print(f"| {kind} | {count} | {cells[0]} | {cells[1]} | {raised} |")
    for (kind, verdict), found in apart.items():
        for line in found[: options.show]:
            print(f"- {kind}, theirs {verdict}: {line}")


if __name__ == "__main__":
    main()
