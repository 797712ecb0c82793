"""Run the suite of the financial assistant on recorded replies, and write its report.

python examples/finance/run.py [FOLDER]    # the report goes to out/finance unless FOLDER is given
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
CASSETTE = HERE / "data" / "agent.cassette.jsonl"


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "out/finance")
    command = [sys.executable, "-m", "dokimos", "test", str(HERE / "agent.yaml"), "--no-journal", "-q"]
    command += ["--replay", str(CASSETTE), "-o", str(folder / "financial-assistant.html")]
    print(
        "financial assistant · a suite in YAML of ten conversations, each with several metrics\n", flush=True
    )
    status = subprocess.run(command, check=False).returncode
    if status not in (0, 1):  # 1: some cases failed, as they do here
        sys.exit(status)
    print(f"\n  report  {(folder / 'financial-assistant.html').resolve()}")


if __name__ == "__main__":
    main()
