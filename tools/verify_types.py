"""Check that every public symbol has a type that all checkers agree on: pyright's --verifytypes at 100 %.

    python tools/verify_types.py

The package is copied first, since pyright does not find `py.typed` of an editable install. Prints each symbol
whose type is missing, partly unknown or inferred differently, and exits with 1 where there is one.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Run pyright on a copy of the package, and exit with 1 below 100 %."""
    with TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "src" / "dokimos", Path(folder) / "dokimos")
        found = verify(Path(folder))
    score = re.search(r"Type completeness score: ([\d.]+)%", found)
    if score is None:
        sys.exit(found)
    if score[1] != "100":
        print(_faults(found))
        sys.exit(f"{score[1]} % of the public symbols have a complete type.")
    print("All public symbols have a complete type.")


def verify(folder: Path) -> str:
    """Return what pyright prints about the package in a folder."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable]
    command += ["--verifytypes", "dokimos", "--ignoreexternal"]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    ).stdout


def _faults(text: str) -> str:
    body = text.partition("Symbols used in public interface:")[2]
    return body.partition("Symbols exported by")[0].strip()


if __name__ == "__main__":
    main()
