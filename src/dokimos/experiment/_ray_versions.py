"""Whether the nodes of a cluster have the dokimos and the Python of the process that starts a run."""

from __future__ import annotations

import platform
from typing import NamedTuple

from dokimos._version import __version__
from dokimos.errors import ConfigurationError


class Versions(NamedTuple):
    """What the messages between two processes depend on."""

    dokimos: str
    python: str

    @classmethod
    def of_this_process(cls) -> Versions:
        return cls(__version__, platform.python_version())


def check_versions(nodes: Versions, here: Versions) -> None:
    """Compare dokimos as packages are compared (0.2 is 0.2.0, without the build after +), and Python's minor.

    Raises:
        ConfigurationError: They differ; it says what to do.
    """
    remedies = []
    if _read_dokimos(nodes.dokimos) != _read_dokimos(here.dokimos):
        remedies.append(
            f"Install dokimos {here.dokimos} on the nodes: in their image, or with "
            f'RayExecutor(runtime_env={{"pip": ["dokimos[ray]=={here.dokimos}"]}}). Or start the run with '
            f"dokimos {nodes.dokimos}."
        )
    if _read_minor(nodes.python) != _read_minor(here.python):
        of_nodes, of_here = (".".join(_read_minor(each.python)) for each in (nodes, here))
        remedies.append(
            f"Start the run with Python {of_nodes}, or give the nodes an image with Python {of_here}."
        )
    if remedies:
        raise ConfigurationError(
            f"The nodes have dokimos {nodes.dokimos} on Python {nodes.python}, this process {here.dokimos} "
            f"on {here.python}. {' '.join(remedies)}"
        )


def _read_dokimos(version: str) -> str:
    """Return a version without what makes no difference: the build after +, zeros at its end."""
    public = version.strip().lower().removeprefix("v").partition("+")[0]
    while public.endswith(".0"):
        public = public.removesuffix(".0")
    return public


def _read_minor(version: str) -> tuple[str, ...]:
    return tuple(version.split(".")[:2])
