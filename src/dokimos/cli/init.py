"""`dokimos init`: a small project that works at once."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

EXPERIMENT: Final = '''"""Evaluate the application in this folder: dokimos run evals.py -o out/report.html"""

from pathlib import Path

from dokimos import Dataset, Experiment, on_input
from dokimos.evaluators import ExactMatch, TokenF1

DATA = Path(__file__).parent / "data" / "questions.jsonl"


def answer(question: str) -> str:
    """Stands in for your application: put the call of your model or agent here."""
    known = {"capital of France": "Paris", "capital of Japan": "Tokyo"}
    return next((city for phrase, city in known.items() if phrase in question), "I do not know.")


experiment = Experiment(
    Dataset.load(str(DATA)),
    on_input(answer),
    [ExactMatch(), TokenF1(threshold=0.5)],
    name="capitals",
    parallelism=4,
)

if __name__ == "__main__":
    print(f"{experiment.run().pass_rate:.0%} passed")
'''

QUESTIONS: Final = """\
{"id": "france", "input": "What is the capital of France?", "expectedOutput": "Paris"}
{"id": "japan", "input": "What is the capital of Japan?", "expectedOutput": "Tokyo"}
{"id": "peru", "input": "What is the capital of Peru?", "expectedOutput": "Lima"}
"""

FILES: Final = {"evals.py": EXPERIMENT, "data/questions.jsonl": QUESTIONS}


@click.command()
@click.argument("folder", default=".", type=click.Path(file_okay=False))
def init(folder: str) -> int:
    """Write a small working project to start from; nothing that exists is overwritten."""
    from dokimos.errors import ConfigurationError

    root = Path(folder)
    existing = [name for name in FILES if (root / name).exists()]
    if existing:
        raise ConfigurationError(f"{root / existing[0]} exists already; nothing was written.")
    for name, content in FILES.items():
        path = root / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        except OSError as error:
            raise ConfigurationError(f"Cannot write {path}: {error.strerror or error}.") from error
        click.echo(f"wrote {path}")
    click.echo(f"\nNext:  dokimos run {root / 'evals.py'} -o {root / 'out' / 'report.html'}")
    return 0
