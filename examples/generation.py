"""Let a model write cases from a document, review them, and make a data set of what was accepted.

python examples/generation.py
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from dokimos.generation import build_dataset, generate_cases, read_review_list, write_review_list

TERMS = """# Returns

Goods can be returned within 30 days. Opened goods are only exchanged.

# Shipping

Shipping is free from 50 euros. Parcels to islands cost 7 euros more.
"""


def model(prompt: str) -> str:
    """Stand in for a model: turns each sentence of the passage into a case, and makes one up."""
    passage = " ".join(re.findall(r"(?m)^\| ?(.*)$", prompt))
    first, second = re.findall(r"[A-Z][^.]*\.", passage)
    category = re.findall(r"(?m)^- (\w+):", prompt)
    cases = [
        {"input": f"Is it true that {first[:-1]}?", "answer": first, "quote": first, "category": category[0]},
        {
            "input": "Who founded it?",
            "answer": "Ada",
            "quote": f"Ada said: {second}",
            "category": category[-1],
        },
    ]
    return json.dumps({"cases": cases})


def main() -> None:
    with TemporaryDirectory() as folder:
        document, review_list = Path(folder, "terms.md"), Path(folder, "review.jsonl")
        document.write_text(TERMS, encoding="utf-8")

        generation = generate_cases(document, model=model, count=4)
        generation.print()
        assert generation.rejections.without_passage == 2, "what is not in the document is rejected"
        write_review_list(review_list, generation.cases)

        # A person reads the list, and accepts what is right.
        first, *others = read_review_list(review_list)
        write_review_list(review_list, [replace(first, status="accepted", note="checked"), *others])

        dataset = build_dataset(read_review_list(review_list))
        print(dataset[0].input, "->", dataset[0].expected_output)
        assert len(dataset) == 1


if __name__ == "__main__":
    main()
