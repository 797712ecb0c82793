"""Record what a small local model answers, so that the demo can score it without network or key.

    python record.py http://127.0.0.1:8000/v1 --model "Qwen2.5-Coder-1.5B-Instruct (GGUF, 1 thread)"

Any OpenAI-compatible server will do; run select_cases.py first. Answers are appended to
data/function_calling.jsonl and data/support_answers.jsonl one by one, and a second start goes on where the
first one stopped.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import re
import time
import urllib.request
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"
SETTINGS = {"temperature": 0.0, "seed": 7, "max_tokens": 160}
PASSAGES_SHOWN = 3


def ask(base_url: str, system: str, user: str, schema: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """One chat completion constrained to `schema`: the text and its metrics."""
    body = {
        "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}},
        **SETTINGS,
    }
    request = urllib.request.Request(
        f"{base_url}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    start = time.perf_counter()
    with urllib.request.urlopen(request, timeout=600) as response:
        reply = json.load(response)
    usage = reply["usage"]
    return reply["choices"][0]["message"]["content"], {
        "model": reply["model"],
        "tokensIn": usage["prompt_tokens"],
        "tokensOut": usage["completion_tokens"],
        "latencyMs": round((time.perf_counter() - start) * 1000),
    }


def call_function(base_url: str, case: dict[str, Any]) -> dict[str, Any]:
    """Ask for one call; the schema fixes the outer shape and leaves the arguments to the model."""
    tools = case["metadata"]["tools"]
    schema = {
        "type": "object",
        "properties": {
            "name": {"enum": [tool["name"] for tool in tools]},
            "arguments": {"type": "object", "additionalProperties": {}},
        },
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }
    system = (
        "You call functions. Reply with one JSON object with the keys name and arguments, "
        "on one line. Functions:\n" + "\n".join(json.dumps(tool) for tool in tools)
    )
    text, metrics = ask(base_url, system, case["inputs"]["input"], schema)
    return {"actualOutputs": {"output": text}, "metrics": metrics}


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


def rank(question: str, passages: Iterable[dict[str, str]]) -> list[dict[str, str]]:
    """Order passages by the summed inverse document frequency of the question's words in them."""
    passages = list(passages)
    bags = [set(words(p["text"])) for p in passages]
    seen_in = Counter(word for bag in bags for word in bag)
    weight = {word: math.log(len(bags) / count) for word, count in seen_in.items()}
    asked = set(words(question))
    scores = [sum(weight[w] for w in asked & bag) for bag in bags]
    order = sorted(range(len(bags)), key=lambda i: -scores[i])
    return [passages[i] for i in order]


def answer_question(base_url: str, case: dict[str, Any], passages: list[dict[str, str]]) -> dict[str, Any]:
    shown = rank(case["inputs"]["input"], passages)[:PASSAGES_SHOWN]
    schema = {
        "type": "object",
        "properties": {"answer": {"type": "string", "maxLength": 120}},
        "required": ["answer"],
        "additionalProperties": False,
    }
    system = (
        "Answer from these passages with as few words as possible. "
        'Reply as {"answer": "..."}.\n' + "\n".join(p["text"] for p in shown)
    )
    text, metrics = ask(base_url, system, case["inputs"]["input"], schema)
    outputs = {
        "output": json.loads(text)["answer"],
        "retrieved": [p["id"] for p in shown],
        "context": [p["text"] for p in shown],
    }
    return {"actualOutputs": outputs, "metrics": metrics}


def support_cases() -> list[dict[str, Any]]:
    questions = json.loads((DATA / "support_questions.json").read_text(encoding="utf-8"))
    return [
        {
            "id": q["id"],
            "inputs": {"input": q["question"]},
            "expectedOutputs": {"output": q["answer"], "relevant": q["relevant"]},
            "metadata": {"category": q["id"].rsplit("-", 1)[0], "kind": q["kind"]},
        }
        for q in questions
    ]


def recorded_ids(path: Path) -> set[str]:
    if not path.exists():
        return set()
    return {json.loads(line)["id"] for line in path.read_text(encoding="utf-8").splitlines()}


def record(path: Path, cases: list[dict[str, Any]], answer: Any) -> None:
    done = recorded_ids(path)
    with path.open("a", encoding="utf-8") as file:
        for number, case in enumerate(cases, 1):
            if case["id"] in done:
                continue
            file.write(json.dumps(case | answer(case), ensure_ascii=False) + "\n")
            file.flush()
            print(f"{path.name} {number}/{len(cases)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("base_url")
    parser.add_argument("--model", required=True, help="what to call the model in provenance.json")
    arguments = parser.parse_args()

    provenance = {
        "model": arguments.model,
        "startedAt": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "parameters": SETTINGS | {"passagesShown": PASSAGES_SHOWN},
    }
    (DATA / "provenance.json").write_text(json.dumps(provenance, indent=2) + "\n", encoding="utf-8")
    passages = json.loads((DATA / "knowledge_base.json").read_text(encoding="utf-8"))["passages"]
    calls = [json.loads(line) for line in (DATA / "function_calling_cases.jsonl").open(encoding="utf-8")]
    record(
        DATA / "support_answers.jsonl",
        support_cases(),
        lambda case: answer_question(arguments.base_url, case, passages),
    )
    record(DATA / "function_calling.jsonl", calls, lambda case: call_function(arguments.base_url, case))


if __name__ == "__main__":
    main()
