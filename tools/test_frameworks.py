"""Test the integrations with the real frameworks, each in an environment of its own.

    python tools/test_frameworks.py [NAME ...]

Builds `tests/frameworks/.venv/NAME` from `tests/frameworks/requirements/NAME.txt` where it is missing or
older, and runs `tests/frameworks/test_NAME.py` in it. Without names, all frameworks are tested. With
DOKIMOS_RECORD=1 their results are recorded for the ordinary tests.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "tests" / "frameworks"
COMMON = ["pytest>=8.4", "pytest-asyncio>=1.0", "pytest-timeout>=2.3", "hypothesis>=6.120"]


def main(names):
    """Test frameworks and exit with 1 where one fails."""
    known = sorted(path.stem for path in (FOLDER / "requirements").glob("*.txt"))
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.exit(f"There is no framework {', '.join(unknown)}; there are {', '.join(known)}.")
    outcomes = {name: tested(name) for name in names or known}
    print()
    for name, (outcome, seconds) in outcomes.items():
        print(f"{name:20} {outcome} ({seconds:.0f} s)")
    sys.exit(any(outcome != "passed" for outcome, _ in outcomes.values()))


def tested(name):
    """Return how the tests of a framework ended, and how long that took."""
    start = time.monotonic()
    print(f"== {name}", flush=True)
    if not built(name):
        return "not installed", time.monotonic() - start
    environment = {**os.environ, "DOKIMOS_FRAMEWORK": name, "NO_COLOR": "1"}
    # Warnings of the frameworks are theirs; those of our own code are found by the ordinary tests.
    arguments = ["-q", "-p", "no:cacheprovider", "-W", "ignore", f"tests/frameworks/test_{name}.py"]
    done = subprocess.run(
        [python_of(name), "-m", "pytest", *arguments], cwd=ROOT, env=environment, check=False
    )
    return "passed" if done.returncode == 0 else "failed", time.monotonic() - start


def built(name):
    """Build the environment of a framework where it is missing or its requirements have changed."""
    environment = FOLDER / ".venv" / name
    requirements = FOLDER / "requirements" / f"{name}.txt"
    stamp = environment / ".built"
    if stamp.exists() and stamp.stat().st_mtime >= requirements.stat().st_mtime:
        return True
    shutil.rmtree(environment, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    installer = [python_of(name), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    if uv := shutil.which("uv"):
        installer = [uv, "pip", "install", "-q", "--python", python_of(name)]
    done = subprocess.run([*installer, "-e", str(ROOT), *COMMON, "-r", str(requirements)], check=False)
    if done.returncode == 0:
        stamp.touch()
    return done.returncode == 0


def python_of(name):
    """Return the interpreter of a framework's environment."""
    return str(FOLDER / ".venv" / name / "bin" / "python")


if __name__ == "__main__":
    main(sys.argv[1:])
