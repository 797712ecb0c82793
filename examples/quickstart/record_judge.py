"""Record the judge's replies for the demo: python record_judge.py

Asks the server that `run.JUDGE` names, any OpenAI-compatible one, and writes data/judge.cassette.jsonl.
"""

from __future__ import annotations

from run import judged_answers

from dokimos.reporting import make_console, print_result

if __name__ == "__main__":
    print_result(judged_answers("record").run(), make_console())
