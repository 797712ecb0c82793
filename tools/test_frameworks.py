"""Test the integrations with the real frameworks, each in an environment of its own.

    python tools/test_frameworks.py [NAME ...]

Builds `tests/frameworks/.venv/NAME` from `tests/frameworks/requirements/NAME.txt` where it is missing or
older, and runs `tests/frameworks/test_NAME.py` in it. Without names, all frameworks are tested. With
DOKIMOS_RECORD=1 their results are recorded for the ordinary tests.

Those that have an instrumentation of OpenTelemetry export a run to a server as well
(`tests/frameworks/test_exports.py`), which runs in the environment of `otlp_exporter`.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "tests" / "frameworks"
COMMON = ["pytest>=8.4", "pytest-asyncio>=1.0", "pytest-timeout>=2.3", "hypothesis>=6.120"]
EXPORTING = (
    "agent_framework", "crewai", "google_adk", "haystack", "langchain", "llama_index", "openai_agents",
    "pydantic_ai", "smolagents", "strands",
)  # fmt: skip
"""Frameworks whose spans are exported to a server."""
SERVER = "otlp_exporter"


def main(names):
    """Test frameworks and exit with 1 where one fails."""
    known = sorted(path.stem for path in (FOLDER / "requirements").glob("*.txt"))
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.exit(f"There is no framework {', '.join(unknown)}; there are {', '.join(known)}.")
    with serving(names or known) as addresses:
        outcomes = {name: tested(name, addresses) for name in names or known}
    print()
    for name, (outcome, seconds) in outcomes.items():
        print(f"{name:20} {outcome} ({seconds:.0f} s)")
    sys.exit(any(outcome != "passed" for outcome, _ in outcomes.values()))


@contextlib.contextmanager
def serving(names):
    """Run a server for the exports of frameworks; yield the variables that name its addresses."""
    if not set(names) & set(EXPORTING) or not built(SERVER):
        yield {}
        return
    with tempfile.TemporaryDirectory() as folder:
        command = ["-m", "dokimos", "serve", "--host", "127.0.0.1", "--port", "0", "--grpc-port", "0"]
        variables = {**os.environ, "LOG_LEVEL": "INFO", "DOKIMOS_DATA_DIR": folder}
        log = Path(folder) / "log"
        with log.open("w") as stream:
            server = subprocess.Popen(
                [python_of(SERVER), *command], env=variables, stdout=subprocess.PIPE, stderr=stream, text=True
            )
        try:
            address = server.stdout.readline().split()[3]
            grpc_port = re.search(r"over gRPC at port (\d+)", log.read_text())[1]
            yield {
                "DOKIMOS_TRACE_SERVER": address,
                "DOKIMOS_TRACE_GRPC": f"http://127.0.0.1:{grpc_port}",
            }
        finally:
            server.terminate()
            server.wait()


def tested(name, addresses):
    """Return how the tests of a framework ended, and how long that took."""
    start = time.monotonic()
    print(f"== {name}", flush=True)
    if not built(name):
        return "not installed", time.monotonic() - start
    environment = {**os.environ, **addresses, "DOKIMOS_FRAMEWORK": name, "NO_COLOR": "1"}
    files = [f"tests/frameworks/test_{name}.py"]
    if name in EXPORTING:
        files.append("tests/frameworks/test_exports.py")
    # Warnings of the frameworks are theirs; those of our own code are found by the ordinary tests.
    arguments = ["-q", "-p", "no:cacheprovider", "-W", "ignore", *files]
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
