"""Several processes that record one cassette at once."""

import json
import subprocess
import sys

PROGRAM = """
import asyncio, sys
from dokimos.judges._judge_calls import CallRequest
from dokimos.judges._cassette import Cassette
from dokimos.judges._protocol import JudgeReply, as_judge

async def record(name):
    cassette = Cassette("evals.jsonl", "record")
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(25):
        request = CallRequest(as_judge(lambda prompt: "yes"), f"{name}-{number}", None, repeat=0, sample=0)
        await cassette.put(request.key, request, JudgeReply("yes"))
        cassette.save()

asyncio.run(record(sys.argv[1]))
"""


def test_processes_that_record_at_once_lose_nothing(tmp_path):
    names = ("one", "two", "three")
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, name],
            cwd=tmp_path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        process.communicate(timeout=60)
        assert process.returncode == 0

    prompts = {json.loads(line)["prompt"] for line in (tmp_path / "evals.jsonl").read_text().splitlines()}
    assert prompts == {f"{name}-{number}" for name in names for number in range(25)}
