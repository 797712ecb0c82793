"""How far our judged evaluators agree with labels, beside those of DeepEval and Ragas on the same model.

`table` prints the tables from the recorded results, `replay` judges anew from the recorded replies and says
whether the results are the same, and `record` asks a model for what is not recorded yet: it may be stopped
at any time and goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from arms import OURS, PEERS, Arm, OurArm, PeerArm
from cases import EVALUATORS, HERE, Case, cases_of
from report import Results, tables
from store import ReplyStore, append_line, lines_of, serve

RESULTS: Final = HERE / "results.jsonl"
REPLIES: Final = HERE / "replies"
BEGIN, END = "<!-- recorded: begin -->", "<!-- recorded: end -->"


def main() -> None:
    options = parsed()
    if options.command == "table":
        print(text := tables(results()))
        if options.write:
            write(options.write, text)
    elif options.command == "record":
        record(options)
    else:
        sys.exit(replay(options))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    table = commands.add_parser("table", help="print the tables")
    table.add_argument("--write", type=Path, help="the page that gets them, between two marked lines")
    again = commands.add_parser("replay", help="judge from the recorded replies")
    fresh = commands.add_parser("record", help="ask a model for what is not recorded")
    fresh.add_argument("--model-url", required=True, help="an OpenAI-compatible base URL")
    fresh.add_argument(
        "--embeddings-url", help="the same for embeddings, which Ragas's AnswerRelevancy needs"
    )
    fresh.add_argument("--again", action="store_true", help="judge anew what has a result, too")
    for command in (again, fresh):
        command.add_argument(
            "--only", choices=EVALUATORS, action="append", help="an evaluator; all unless given"
        )
        for peer in PEERS:
            command.add_argument(
                f"--{peer}", type=Path, help=f"a Python that has {peer}; left out without one"
            )
    return parser.parse_args()


def record(options: argparse.Namespace) -> None:
    """Judge every case by every arm that is at hand, and add what they say to the results."""
    store = ReplyStore(REPLIES, model_url=options.model_url, embeddings_url=options.embeddings_url)
    done = {} if options.again else results()
    for case, name, arm in _turns(options, arms_of(options, store)):
        if (case.name, name) not in done:
            row = judged(store, case, name, arm)
            print(described(row), file=sys.stderr, flush=True)
            append_line(RESULTS, row)
    keep(results())


def replay(options: argparse.Namespace) -> int:
    """Judge what has a result anew from the recorded replies; return 1 if anything is not as recorded."""
    store, known, changed = ReplyStore(REPLIES), results(), 0
    for case, name, arm in _turns(options, arms_of(options, store)):
        recorded = known.get((case.name, name))
        if recorded and (row := judged(store, case, name, arm)) != recorded:
            changed += 1
            print(f"{described(row)}\n  recorded: {described(recorded)}")
    if changed:
        print(f"{changed} results are not as recorded; record them anew with `record --again`.")
    else:
        print("All results are as recorded.")
    return min(changed, 1)


def arms_of(options: argparse.Namespace, store: ReplyStore) -> dict[str, Arm]:
    """Return the arms that are at hand, ours first, all in front of the same store."""
    host, port = serve(store).server_address[:2]
    base = f"http://{host!s}:{port}"
    arms: dict[str, Arm] = {OURS: OurArm(f"{base}/{OURS}/v1")}
    for peer in PEERS:
        if python := getattr(options, peer):
            arms[peer] = PeerArm(peer, python, f"{base}/{peer}/v1")
    return arms


def judged(store: ReplyStore, case: Case, name: str, arm: Arm) -> dict[str, Any]:
    """Return what an arm says of a case, and what it cost."""
    store.begin_case(case.name)
    outcome = arm.judge(case)
    usage = store.usage()
    return {"case": case.name, "arm": name, **asdict(outcome), **asdict(usage)}


def described(row: dict[str, Any]) -> str:
    """Return a result on one line."""
    said = row["error"] if row["score"] is None else f"{row['score']:.2f}"
    tokens = f"{row['prompt_tokens']} + {row['reply_tokens']} tokens"
    return f"{row['case']} {row['arm']}: {said} ({row['calls']} calls, {tokens})"


def results() -> Results:
    """Return the results so far; the last one counts where there are several."""
    if not RESULTS.exists():
        return {}
    return {(row["case"], row["arm"]): row for row in lines_of(RESULTS)}


def keep(found: Results) -> None:
    """Write the results whole, sorted by case."""
    text = "".join(json.dumps(found[key]) + "\n" for key in sorted(found))
    half = RESULTS.with_suffix(".half")
    half.write_text(text, encoding="utf-8")
    os.replace(half, RESULTS)


def write(page: Path, text: str) -> None:
    """Put the tables between the marked lines of a page."""
    before, rest = page.read_text(encoding="utf-8").split(BEGIN)
    page.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{rest.split(END)[1]}", encoding="utf-8")


def _turns(options: argparse.Namespace, arms: dict[str, Arm]) -> Iterator[tuple[Case, str, Arm]]:
    """All arms judge a case before the next one, so that they can be compared at any time."""
    for evaluator in options.only or EVALUATORS:
        for case in cases_of(evaluator):
            for name, arm in arms.items():
                yield case, name, arm


if __name__ == "__main__":
    main()
