"""What a gate refuses before it compares anything."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

from dokimos.errors import ConfigurationError
from dokimos.gate._baseline import Baseline
from dokimos.gate._gate_config import GateConfig
from dokimos.gate._reruns import Rerun


def check_rerun(config: GateConfig, rerun: Rerun | None) -> None:
    """Raise `ConfigurationError` if suspicious items are to be rerun and there is no `rerun`."""
    if config.confirm and rerun is None:
        raise ConfigurationError(
            f"confirm={config.confirm} needs a way to run suspicious items again: set rerun= to the "
            "experiment, or to a function that takes examples and returns their result."
        )


def check_whole_run(partial: str | None) -> None:
    """Raise `ConfigurationError` for a run of selected items, which says nothing about the whole data set."""
    if partial is not None:
        raise ConfigurationError(
            f"A gate compares whole runs, and this one covers only part of its data set ({partial}). Run the "
            "whole data set first, without --failed or --estimate."
        )


def check_owner(baseline: Baseline, path: Path, name: str | None) -> None:
    """Raise `ConfigurationError` if a file is the baseline of a gate with another name.

    Two names can make the same file name, since file names allow fewer characters.
    """
    if name is not None and baseline.gate not in (None, name):
        raise ConfigurationError(
            f"The baseline {quote(str(path))} belongs to the gate {baseline.gate!r}, and the name {name!r} "
            "maps to the same file. Rename one of the two; if this gate was renamed, delete the file."
        )


def check_pairing(baseline: Baseline, path: Path, config: GateConfig) -> None:
    """Raise `ConfigurationError` if the configuration contradicts how the baseline pairs items."""
    if config.pairing not in ("auto", baseline.pairing.value):
        raise ConfigurationError(
            f"The baseline {quote(str(path))} pairs items by {baseline.pairing.value!r}, but the "
            f"configuration says {config.pairing!r}. Write a new baseline "
            "(DOKIMOS_UPDATE_BASELINE=true), or configure the same pairing."
        )
