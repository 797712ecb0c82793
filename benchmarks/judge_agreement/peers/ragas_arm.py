"""Ragas's metrics, asked by lines of JSON; run by an interpreter that has Ragas, with the base URL."""

import asyncio
import json
import os
import sys

os.environ |= {"RAGAS_DO_NOT_TRACK": "true", "LANGCHAIN_TRACING_V2": "false", "LANGSMITH_TRACING": "false"}
answers, sys.stdout = sys.stdout, sys.stderr  # libraries may print; only answers go out

from openai import AsyncOpenAI  # noqa: E402 - once only answers go to stdout
from ragas.dataset_schema import SingleTurnSample  # noqa: E402 - once only answers go to stdout
from ragas.embeddings import OpenAIEmbeddings  # noqa: E402 - once only answers go to stdout
from ragas.llms import llm_factory  # noqa: E402 - once only answers go to stdout
from ragas.metrics import AspectCritic  # noqa: E402 - once only answers go to stdout
from ragas.metrics.collections import AnswerAccuracy, AnswerRelevancy, Faithfulness  # noqa: E402 - once only answers go to stdout

CLIENT = AsyncOpenAI(base_url=sys.argv[1], api_key="none", timeout=900, max_retries=0)
LLM = llm_factory("judge", client=CLIENT, temperature=0)
EMBEDDINGS = OpenAIEmbeddings(client=CLIENT, model="embedder")


async def score(name: str, case: dict) -> float:
    question, answer = case["input"], case["output"]
    if name == "faithfulness":
        found = await Faithfulness(llm=LLM).ascore(
            user_input=question, response=answer, retrieved_contexts=case["context"]
        )
        return found.value
    if name == "answer_relevancy":
        metric = AnswerRelevancy(llm=LLM, embeddings=EMBEDDINGS)
        return (await metric.ascore(user_input=question, response=answer)).value
    if name == "correctness":
        metric = AnswerAccuracy(llm=LLM)
        found = await metric.ascore(user_input=question, response=answer, reference=case["expected"])
        return found.value
    critic = AspectCritic(name="criteria", definition=case["criteria"], llm=LLM)
    return await critic.single_turn_ascore(SingleTurnSample(user_input=question, response=answer))


async def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            value = float(await score(asked["metric"], asked["case"]))
            answer = {"score": value} if value == value else {"error": "NaN"}
        except Exception as problem:
            answer = {"error": " ".join(f"{type(problem).__name__}: {problem}".split())[:200]}
        print(json.dumps(answer), file=answers, flush=True)


asyncio.run(main())
