"""What the metadata of a perturbed example say: what was changed, and in which one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dokimos._core.json_object import parse_object

PERTURBATION: Final = "perturbation"
"""The key in the metadata of an example."""
ORIGIN: Final = "origin"
KIND: Final = "kind"
VARIANT: Final = "variant"
MARKER: Final = "marker"
EXPECTED: Final = "expected"
ORIGINAL: Final = "original"
"""The kind of the examples that were not changed."""


def read_perturbation(metadata: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return what metadata say of a perturbation, also as JSON text, as files of tables have it."""
    about = metadata.get(PERTURBATION)
    if isinstance(about, str):
        about = parse_object(about)
    return about if isinstance(about, Mapping) and ORIGIN in about and KIND in about else None
