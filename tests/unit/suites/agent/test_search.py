"""Tools that search documents: what is found is the retrieved context, over all turns of a case."""

import pytest

from dokimos.errors import ConfigurationError

EMBED = """
import hashlib

async def embed(texts):
    def vector(text):
        words = {word.strip(".,").lower() for word in text.split()}
        return [float(word in words) + 0.01 for word in ("oslo", "rome", "cold", "warm")]
    return [vector(text) for text in texts]
"""
SLOW_OSLO = """
import asyncio

rome = asyncio.Event()

async def slow(texts):
    if texts == ["Oslo"]:
        await rome.wait()
    if texts == ["warm Rome"]:
        rome.set()
    return await embed(texts)
"""
TOOLS = """
tools:
  - {name: places, type: vectorstore, source: docs, embedding_model: "embed.py:embed", top_k: 1,
     description: What is known of places.}
execution: {cache_dir: cache}
evaluations: {metrics: [{type: standard, metric: contains, values: [Oslo]}]}
"""


def test_what_is_found_is_told_and_is_the_context(script, item, folder):
    folder.write("embed.py", EMBED)
    folder.write("docs/oslo.md", "Oslo is cold.\n")
    folder.write("docs/rome.md", "Rome is warm.\n")
    script.then(
        [("places_search", {"query": "Oslo"})], "Oslo", [("places_search", {"query": "warm Rome"})], "Rome"
    )

    found = item(TOOLS + "test_cases: [{turns: [{input: Where?}, {input: And then?}]}]\n")

    first, second = found.actual_outputs["turns"]
    assert "Oslo is cold." in script.text(1)
    assert "oslo.md" in script.text(1)
    assert [len(turn["contexts"]) for turn in (first, second)] == [1, 2]
    assert "Rome is warm." in second["contexts"][1]
    assert script.parameters[0].function_tools[0].description == "What is known of places."


def test_a_tool_that_is_called_a_search_keeps_its_name(script, declare, folder):
    folder.write("docs/oslo.md", "Oslo is cold.\n")
    text = TOOLS.replace("name: places", "name: search_kb").replace(', embedding_model: "embed.py:embed"', "")

    plan = declare(text + "test_cases: [{input: q}]\n").application.plan

    assert plan.searches[0].name == "search_kb"


def test_documents_that_are_not_there_are_told_before_anything_is_run(declare, folder):
    folder.write("embed.py", EMBED)
    with pytest.raises(ConfigurationError, match=r"tools\[0\].*docs"):
        declare(TOOLS + "test_cases: [{input: q}]\n")


def test_the_context_is_in_the_order_of_the_calls_whichever_ends_first(script, item, folder):
    folder.write("embed.py", EMBED + SLOW_OSLO)
    folder.write("docs/oslo.md", "Oslo is cold.\n")
    folder.write("docs/rome.md", "Rome is warm.\n")
    script.then(
        [("places_search", {"query": "Oslo"}), ("places_search", {"query": "warm Rome"})], "Oslo and Rome"
    )

    found = item(TOOLS.replace("embed.py:embed", "embed.py:slow") + "test_cases: [{input: Where?}]\n")

    assert [text.split()[-3] for text in found.actual_outputs["contexts"]] == ["Oslo", "Rome"]
