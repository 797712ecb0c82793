"""Options that say where a run works: worker processes of this machine, or a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from dokimos._cli.run_settings import RunSettings
    from dokimos.experiment._ray_executor import RayExecutor

F = TypeVar("F", bound=Callable[..., Any])
EXECUTOR_OPTIONS: Final = ("processes", "on", "ray_workers", "ray_resources")
"""The settings that `executor_options` gives."""
_HERE: Final = "here"


def executor_options(command: F) -> F:
    """Options on where the task is called and outputs are scored."""
    for option in reversed((
        click.option(
            "--processes", type=click.IntRange(min=1),
            help="Call the task and score in so many processes, for work that keeps cores busy.",
        ),
        click.option(
            "--on", metavar="ray|ADDRESS|here",
            help="Call the task and score on a Ray cluster: 'ray' starts one on this machine, an address "
            "such as ray://host:10001 joins one; 'here' does so in this process, where a run was elsewhere.",
        ),
        click.option(
            "--ray-workers", type=click.IntRange(min=1), metavar="N",
            help="Workers on the cluster; on this machine as many as it has cores.",
        ),
        click.option(
            "--ray-resources", metavar="NAME=AMOUNT,...",
            help="What each worker takes of its node, such as num_cpus=2,num_gpus=0.25.",
        ),
    )):  # fmt: skip
        command = option(command)
    return command


def executor_changes(settings: RunSettings) -> dict[str, Any]:
    """Return the fields of `RunOptions` that say where a run works; none where nothing was said."""
    if settings.on in (None, _HERE):
        if settings.ray_workers is not None or settings.ray_resources is not None:
            raise click.UsageError("--ray-workers and --ray-resources need --on ray, or --on ADDRESS.")
        is_open = settings.on is None and settings.processes is None
        return {} if is_open else {"processes": settings.processes or 1, "executor": None}
    if settings.processes is not None:
        raise click.UsageError("--on and --processes both say where the run works: give one of them.")
    return {"processes": 1, "executor": _ray_executor(settings, settings.on)}


def _ray_executor(settings: RunSettings, address: str) -> RayExecutor:
    from dokimos.experiment._ray_executor import RayExecutor

    if address in ("ray", "local"):
        address = "local"
    elif not address.strip():
        raise click.UsageError("--on takes ray, an address such as ray://host:10001, or here.")
    elif settings.ray_workers is None:
        raise click.UsageError(f"--on {address} needs --ray-workers N.")
    resources = _parse_resources(settings.ray_resources or "")
    return RayExecutor(address=address, num_workers=settings.ray_workers, resources=resources)


def _parse_resources(text: str) -> dict[str, float]:
    resources: dict[str, float] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, equals, amount = (piece.strip() for piece in part.partition("="))
        try:
            resources[name] = float(amount)
        except ValueError:
            equals = ""
        if not (name and equals):
            raise click.UsageError(f"--ray-resources takes NAME=AMOUNT, such as num_gpus=0.25, not {part!r}.")
    return resources
