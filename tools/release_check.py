"""Check that a tag, the version of the package and a dated section of the changelog agree.

python tools/release_check.py v0.2.0
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main(tag: str) -> int:
    """Print what does not agree, and return the exit code."""
    version = package_version((ROOT / "src/dokimos/_version.py").read_text(encoding="utf-8"))
    problems = find_problems(tag, version, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    print("\n".join(problems) or f"{tag} can be released.")
    return 1 if problems else 0


def package_version(source: str) -> str:
    """Read the version out of the text of `_version.py`."""
    match = re.search(r'__version__ = "([^"]+)"', source)
    if match is None:
        raise SystemExit("src/dokimos/_version.py has no __version__")
    return match[1]


def find_problems(tag: str, version: str, changelog: str) -> list[str]:
    """Return a sentence for each thing that keeps `tag` from being released."""
    problems = []
    if tag != f"v{version}":
        problems.append(f"The tag is {tag}, but src/dokimos/_version.py says {version}.")
    if not re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d{{2}}-\d{{2}}$", changelog, re.MULTILINE):
        problems.append(f"CHANGELOG.md has no section '## [{version}] - YYYY-MM-DD'.")
    return problems


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python tools/release_check.py TAG")
    sys.exit(main(sys.argv[1]))
