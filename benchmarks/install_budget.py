"""Measure what installing dokimos without extras costs, and what importing and starting it do.

The size counts the bytes of files, without compiled ones and without pip, setuptools and what they leave.
Exits with 1 when the core install has more packages or is larger than its budget; the times depend on the
machine and are only shown.

With names of extras (`python benchmarks/install_budget.py agents-openai agents-anthropic`) it installs each
into a fresh virtual environment, from the package index that pip is configured with, and measures that.
"""

from __future__ import annotations

import re
import resource
import subprocess
import sys
import tempfile
import venv
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path

PACKAGES = 24
MEGABYTES = 55
IMPORT_SECONDS = 0.15
HELP_SECONDS = 0.25
LIST_SECONDS = 0.3
EXTRAS = {
    "agents": (35, 100),
    "agents-openai": (45, 150),
    "agents-anthropic": (45, 150),
    "agents-mcp": (65, 150),
    "retrieval": (40, 90),
    "server": (50, 130),
}
"""Packages and megabytes that an extra may have together with the core."""
TOOLS = {"pip", "setuptools", "wheel"}
LEFT_BY_PIP = {"INSTALLER", "REQUESTED", "direct_url.json"}
ROOT = Path(__file__).resolve().parents[1]


def main(extras: list[str]) -> int:
    """Print the figures beside their budgets; those of a fresh install of each extra where any is named."""
    if extras == ["--measure"]:
        return _print_this_environment()
    if extras:
        return max([_measure_extra(extra) for extra in extras])
    names = closure("dokimos")
    size = sum(installed_size(distribution(name)) for name in names) / 1e6
    print(f"packages           {len(names):6}      at most {PACKAGES}")
    print(f"installed size     {size:8.1f} MB at most {MEGABYTES}")
    print(f"import dokimos     {_cpu_seconds('-c', 'import dokimos'):8.3f} s  at most {IMPORT_SECONDS}")
    print(f"dokimos --help     {_cpu_seconds('-m', 'dokimos', '--help'):8.3f} s  at most {HELP_SECONDS}")
    print(f"dokimos evaluators {_cpu_seconds('-m', 'dokimos', 'evaluators'):8.3f} s  at most {LIST_SECONDS}")
    return int(len(names) > PACKAGES or size > MEGABYTES)


def _measure_extra(extra: str) -> int:
    """Install an extra into a fresh environment, and measure all that is in it but what installs."""
    if extra not in EXTRAS:
        sys.exit(f"There is no budget for {extra!r}; there is one for {', '.join(EXTRAS)}.")
    packages, megabytes = EXTRAS[extra]
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder) / "bin" / "python")
        install = [python, "-m", "pip", "install", "-qq", "--no-compile", "--disable-pip-version-check"]
        subprocess.run([*install, f"{ROOT}[{extra}]"], check=True)
        measured = subprocess.check_output([python, __file__, "--measure"], text=True)
    count, size = measured.split()
    print(f"{extra:<17}{count:>4} packages, at most {packages}; {float(size):6.1f} MB, at most {megabytes}")
    return int(int(count) > packages or float(size) > megabytes)


def _print_this_environment() -> int:
    found = [each for each in distributions() if _normalised(each.metadata["Name"]) not in TOOLS]
    print(len(found), sum(map(installed_size, found)) / 1e6)
    return 0


def closure(name: str) -> set[str]:
    """Return the packages that a plain `pip install NAME` brings here, itself included."""
    found: set[str] = set()
    waiting = [_normalised(name)]
    while waiting:
        current = waiting.pop()
        if current in found:
            continue
        found.add(current)
        waiting.extend(_requirements(current))
    return found


def _requirements(name: str) -> list[str]:
    """Return what a package requires here without extras.

    A requirement whose marker excludes this machine is not installed, which is how it is recognized; one with
    an `extra` marker is left out.
    """
    lines = distribution(name).requires or []
    wanted = [_normalised(re.split(r"[^\w.-]", line, maxsplit=1)[0]) for line in lines if _applies(line)]
    return [requirement for requirement in wanted if _is_installed(requirement)]


def _applies(line: str) -> bool:
    _, _, marker = line.partition(";")
    if "extra" in marker:
        return False
    older_than = re.search(r"python_version\s*<\s*['\"]3\.(\d+)", marker)
    return older_than is None or sys.version_info < (3, int(older_than[1]))


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def installed_size(package: Distribution) -> int:
    """Return the bytes of a package's files, without compiled ones and what the installer leaves there."""
    files = [file for file in package.files or () if file.suffix != ".pyc" and file.name not in LEFT_BY_PIP]
    size: int = sum(_size(Path(str(package.locate_file(file)))) for file in files)
    if any(file.suffix == ".pth" or file.name.startswith("__editable__") for file in files):
        size += sum(_size(path) for path in (ROOT / "src").rglob("*") if path.suffix != ".pyc")
    return size


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _cpu_seconds(*arguments: str) -> float:
    """Return the CPU time of the best of three runs of Python, less that of an empty program."""
    return max(0.0, _best_of_three(*arguments) - _best_of_three("-c", "pass"))


def _best_of_three(*arguments: str) -> float:
    return min(_cpu_of_child(*arguments) for _ in range(3))


def _cpu_of_child(*arguments: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
