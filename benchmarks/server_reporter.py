"""What reporting to a server costs a run: CPU for each item, in the thread of the run and in all.

    python benchmarks/server_reporter.py [ITEMS]

The server takes everything at once, in a process of its own, so that the figures are the client's.
The limit script beside it encodes such items with `json.dumps` and posts 100 at a time with `http.client`:
it neither copies nor checks what they hold. Each figure is the smallest of five.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time

from dokimos import Example, ServerReporter, evaluate
from dokimos.evaluators import ExactMatch

SERVER = """
import asyncio
REPLY = b'{"runId":"r","status":"ok"}'
HEAD = b"HTTP/1.1 201 Created\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(REPLY)
async def answer(reader, writer):
    try:
        while True:
            head = await reader.readuntil(b"\\r\\n\\r\\n")
            lines = head.lower().split(b"\\r\\n")
            length = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), 0)
            await reader.readexactly(length)
            writer.write(HEAD + REPLY)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()
async def main():
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


def measure(count, reporters):
    """Run no-op items and return CPU seconds of the process for 1,000 of them."""
    examples = [Example.of(f"question {number}", f"QUESTION {number}") for number in range(count)]
    start = time.process_time()
    evaluate(examples, str.upper, [ExactMatch()], reporters=reporters, quiet=True, journal=False)
    return (time.process_time() - start) / count * 1000


def limit(count, port):
    """Encode and post the same amount as plainly as possible; CPU seconds for 1,000 items."""
    item = {
        "inputs": {"input": "question 1"}, "expectedOutputs": {"output": "QUESTION 1"},
        "actualOutputs": {"output": "QUESTION 1"}, "success": True, "ordinal": 1, "repetition": 0,
        "evalResults": [{"name": "Exact Match", "score": 1.0, "threshold": 1.0, "success": True,
                         "reason": "x" * 40}],
    }  # fmt: skip
    connection = http.client.HTTPConnection("127.0.0.1", port)
    start = time.process_time()
    for first in range(0, count, 100):
        body = json.dumps({"items": [{**item, "ordinal": first + number} for number in range(100)]})
        connection.request("POST", "/api/v1/runs/r/items", body, {"Content-Type": "application/json"})
        connection.getresponse().read()
    return (time.process_time() - start) / count * 1000


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) as server:
        port = int(server.stdout.readline())
        reporter = ServerReporter(server_url=f"http://127.0.0.1:{port}", project_name="benchmark")
        measure(500, [reporter])  # imports and the first connection
        rounds = [(measure(count, []), measure(count, [reporter]), limit(count, port)) for _ in range(5)]
        server.terminate()
    reporter.close()
    assert reporter.failed_item_count == 0
    without, reported, plain = map(min, zip(*rounds, strict=True))
    added = reported - without
    print(f"run alone             {without * 1000:7.1f} ms CPU per 1,000 items")
    print(f"run and reporter      {reported * 1000:7.1f} ms")
    print(f"the reporter adds     {added * 1000:7.1f} ms, {added * 1e6 / 1000:.0f} us an item")
    print(f"limit script          {plain * 1000:7.1f} ms, the reporter {added / plain:.1f} times")


if __name__ == "__main__":
    main()
