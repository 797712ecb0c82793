"""DeepEval's metrics, asked by lines of JSON; run by an interpreter that has DeepEval, with `--url`."""

import json
import os
import sys

os.environ |= {
    "DEEPEVAL_TELEMETRY_OPT_OUT": "YES",
    "DEEPEVAL_UPDATE_WARNING_OPT_IN": "0",
    "DEEPEVAL_PER_ATTEMPT_TIMEOUT_SECONDS_OVERRIDE": "900",
    "DEEPEVAL_PER_TASK_TIMEOUT_SECONDS_OVERRIDE": "3600",
    "DEEPEVAL_DISABLE_DOTENV": "1",
    "ERROR_REPORTING": "NO",
}
answers, sys.stdout = sys.stdout, sys.stderr  # libraries may print; only answers go out

from deepeval.metrics import AnswerRelevancyMetric, FaithfulnessMetric, GEval  # noqa: E402 - once only answers go to stdout
from deepeval.models import LocalModel  # noqa: E402 - once only answers go to stdout
from deepeval.test_case import LLMTestCase, SingleTurnParams  # noqa: E402 - once only answers go to stdout

MODEL = LocalModel(model="judge", base_url=sys.argv[1], api_key="none", temperature=0)
SHOWN = [SingleTurnParams.INPUT, SingleTurnParams.ACTUAL_OUTPUT]


def metric_for(name: str, case: dict):
    """Without explanations where they are a call of their own, as in our arm: the score is the same."""
    common = {"model": MODEL, "async_mode": False}
    if name == "faithfulness":
        return FaithfulnessMetric(include_reason=False, **common)
    if name == "answer_relevancy":
        return AnswerRelevancyMetric(include_reason=False, **common)
    if name == "correctness":
        shown = [*SHOWN, SingleTurnParams.EXPECTED_OUTPUT]
        return GEval(name="Correctness", criteria=case["criteria"], evaluation_params=shown, **common)
    return GEval(name="Criteria", criteria=case["criteria"], evaluation_params=SHOWN, **common)


def score(name: str, case: dict) -> float:
    key = (name, case.get("criteria"))
    metric = METRICS.get(key) or METRICS.setdefault(key, metric_for(name, case))
    context = case.get("context")
    metric.measure(
        LLMTestCase(
            input=case["input"],
            actual_output=case["output"],
            expected_output=case.get("expected"),
            retrieval_context=context and list(context),
        ),
        _show_indicator=False,
    )
    return metric.score


METRICS: dict = {}
for line in sys.stdin:
    asked = json.loads(line)
    try:
        answer = {"score": score(asked["metric"], asked["case"])}
    except Exception as problem:
        answer = {"error": " ".join(f"{type(problem).__name__}: {problem}".split())[:200]}
    print(json.dumps(answer), file=answers, flush=True)
