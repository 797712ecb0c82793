"""Measure what installing dokimos without extras costs, and what importing and starting it do.

Exits with 1 when the core install has more packages or is larger than its budget; the times depend on the
machine and are only shown.
"""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution

PACKAGES = 24
MEGABYTES = 65
IMPORT_SECONDS = 0.15
HELP_SECONDS = 0.25


def main() -> int:
    """Print the figures beside their budgets."""
    names = closure("dokimos")
    size = sum(installed_size(distribution(name)) for name in names) / 1e6
    print(f"packages           {len(names):6}      at most {PACKAGES}")
    print(f"installed size     {size:8.1f} MB at most {MEGABYTES}")
    print(f"import dokimos     {_cpu_seconds('-c', 'import dokimos'):8.3f} s  at most {IMPORT_SECONDS}")
    print(f"dokimos --help     {_cpu_seconds('-m', 'dokimos', '--help'):8.3f} s  at most {HELP_SECONDS}")
    return int(len(names) > PACKAGES or size > MEGABYTES)


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

    A requirement whose marker excludes this machine is not installed, which is how it is told apart; one with
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
    """Return the bytes of a package's files, compiled ones left out."""
    paths = (package.locate_file(file) for file in package.files or () if file.suffix != ".pyc")
    return sum(path.stat().st_size for path in paths if path.is_file())  # type: ignore[attr-defined]


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
    sys.exit(main())
