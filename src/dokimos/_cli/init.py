"""`dokimos init`: a small project that works at once."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from dokimos._cli.echo import echo

EXPERIMENT: Final = '''"""Evaluate the application in this folder: dokimos run evals.py -o out/report.html"""

from pathlib import Path

from dokimos import Dataset, Experiment
from dokimos.evaluators import ExactMatch, TokenF1

DATA = Path(__file__).parent / "data" / "questions.jsonl"


def answer(question: str) -> str:
    """Stands in for your application: put the call of your model or agent here."""
    known = {"capital of France": "Paris", "capital of Japan": "Tokyo"}
    return next((city for phrase, city in known.items() if phrase in question), "I do not know.")


experiment = Experiment(
    Dataset.load(str(DATA)),
    answer,
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

SUITE: Final = """\
# yaml-language-server: $schema=./suite.schema.json
# Run it: dokimos test agent.yaml
name: capitals
agent: app:answer

evaluations:
  metrics:
    - type: standard
      metric: equality
      case_insensitive: true
      strip_punctuation: true

test_cases:
  - name: france
    input: What is the capital of France?
    ground_truth: Paris
  - name: japan
    input: And what is the capital of Japan?
    ground_truth: Tokyo
"""

APP: Final = '"""Stands in for your application: put the call of your model or agent here."""\n\n\n' + (
    "def answer(question: str) -> str:\n"
    '    known = {"France": "Paris", "Japan": "Tokyo"}\n'
    '    return next((city for country, city in known.items() if country in question), "I do not know.")\n'
)

FILES: Final = {"evals.py": EXPERIMENT, "data/questions.jsonl": QUESTIONS}


@click.command()
@click.argument("folder", default=".", type=click.Path(file_okay=False))
@click.option("--suite", is_flag=True, help="Write a suite in YAML instead of an experiment in Python.")
def init(folder: str, suite: bool) -> int:
    """Write a small working project to start from; nothing that exists is overwritten."""
    from dokimos.errors import ConfigurationError

    root = Path(folder)
    files = _suite_files() if suite else FILES
    # All names before any file is written: a project must not be half overwritten.
    existing = [name for name in files if (root / name).exists()]
    if existing:
        raise ConfigurationError(f"{root / existing[0]} exists already; nothing was written.")
    for name, content in files.items():
        path = root / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        except OSError as error:
            raise ConfigurationError(f"Cannot write {path}: {error.strerror or error}.") from error
        echo(f"wrote {path}")
    if suite:
        echo(f"\nNext:  dokimos test {root / 'agent.yaml'}")
        return 0
    echo(f"\nNext:  dokimos run {root / 'evals.py'} -o {root / 'out' / 'report.html'}")
    return 0


def _suite_files() -> dict[str, str]:
    import json

    from dokimos.suites._schema import json_schema

    schema = json.dumps(json_schema(), indent=2, ensure_ascii=False)
    return {"agent.yaml": SUITE, "app.py": APP, "suite.schema.json": f"{schema}\n"}
