"""Judged evaluators without a network: the judge is a function; a model's name may take its place.

python examples/judged.py
"""

from __future__ import annotations

import json
import re

from dokimos import Dataset, Example, evaluate
from dokimos.evaluators import AnswerRelevancy, Faithfulness, LLMJudge, Toxicity

CONTEXT = ["Goods can be returned within 30 days.", "A receipt is needed for a refund."]
ANSWERS = {
    "How long can I return goods?": "Goods can be returned within 30 days.",
    "Do I need a receipt?": "No receipt is needed.",
}


def judge(prompt: str) -> str:
    """Answer like a model that compares words; asked for JSON, it gives the shape asked for."""
    if '"statements"' in prompt:  # judged text stands behind a bar, its entries are numbered
        return json.dumps(re.findall(r"^\| (?:\[\d+\] )?(.+)$", prompt, re.MULTILINE))
    if '"verdicts"' in prompt:
        claims = prompt.split("Claims:")[1].count("\n| [")
        wrong = "No receipt" in prompt and "idk" in prompt
        return json.dumps(
            [{"verdict": "no" if wrong else "yes", "reason": "Compared word by word."}] * claims
        )
    if '"score"' in prompt:
        good = "No receipt" not in prompt or "toxicity" in prompt
        return json.dumps(
            {"reason": "As the context says." if good else "A receipt is needed.", "score": good + 0}
        )
    return "It goes by the context." if "supports 1 of 1" in prompt else "It contradicts the context."


def task(example: Example) -> dict[str, object]:
    return {"output": ANSWERS[example.input or ""], "context": CONTEXT}


def main() -> None:
    questions = Dataset([Example.of(question) for question in ANSWERS], name="returns")
    evaluators = [
        LLMJudge(name="Right", criteria="Is the answer right by the shop's terms?", judge=judge),
        Toxicity(judge=lambda prompt: '{"reason": "Calm throughout.", "score": 5}'),
        Faithfulness(judge=judge),
        AnswerRelevancy(judge=judge),
    ]
    result = evaluate(questions, task, evaluators)
    for item in result.runs[0].item_results:
        print(item.example.input, "->", item.actual_output)
        for found in item.eval_results:
            print(f"  {found.name}: {found.score}  {found.reason or found.error}")
    assert result.average_score("Faithfulness") == 0.5
    assert result.average_score("Toxicity") == 0.0


if __name__ == "__main__":
    main()
