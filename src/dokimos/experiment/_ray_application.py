"""What of the application goes to the workers on Ray: the script, and where modules are looked for."""

from __future__ import annotations

import os
import pickletools
import sys
from pathlib import Path

from dokimos.errors import ConfigurationError
from dokimos.experiment._worker_messages import NUMBER_BYTES


def find_script(setup: bytes, *, is_local: bool) -> str | None:
    """Return the file of the program where nodes have to run it, as the standard library does for processes.

    Raises:
        ConfigurationError: The task or an evaluator is defined there, and nodes cannot run it.
    """
    is_needed = b"__main__" in setup and any(
        argument == "__main__" for _, argument, _ in pickletools.genops(setup[NUMBER_BYTES:])
    )
    module = sys.modules["__main__"]
    file = getattr(module, "__file__", None)
    if file is None:
        if not is_needed:
            return None
        raise ConfigurationError(
            "The task or an evaluator is defined in this session, which the nodes of a cluster cannot "
            "import. Put it into a module."
        )
    if not is_needed and (getattr(module, "__spec__", None) is not None or not file.endswith(".py")):
        return None  # a program that is installed, such as that of the command line
    path, here = Path(file).resolve(), Path.cwd().resolve()
    if is_local:
        return str(path)
    if path.is_relative_to(here):
        return path.relative_to(here).as_posix()
    if not is_needed:
        return None
    raise ConfigurationError(
        f"The task or an evaluator is defined in {path}, which is not sent to the nodes: start it from "
        "the folder that it is in."
    )


def find_import_paths(*, is_local: bool) -> list[str]:
    """Return where this process looks for modules: on this machine all, else what the current folder has."""
    paths = [os.path.abspath(path) for path in sys.path if not path.endswith(".zip")]
    if is_local:
        return paths
    here = os.getcwd()
    inside = (path for path in paths if path == here or path.startswith(here + os.sep))
    own = (path for path in inside if "site-packages" not in path)
    return [os.path.relpath(path, here).replace(os.sep, "/") for path in own]
