"""Perturbed data sets, and whether the answers to them stay the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dokimos._exports import lazy_exports

if TYPE_CHECKING:
    from dokimos.perturbation._invariance import ChangedAnswer as ChangedAnswer
    from dokimos.perturbation._invariance import InvarianceReport as InvarianceReport
    from dokimos.perturbation._invariance import KindInvariance as KindInvariance
    from dokimos.perturbation._invariance import measure_invariance as measure_invariance
    from dokimos.perturbation._kinds import PerturbationKind as PerturbationKind
    from dokimos.perturbation._perturbing import Perturbed as Perturbed
    from dokimos.perturbation._perturbing import perturb_dataset as perturb_dataset

_MODULE_OF: Final = {
    "ChangedAnswer": "dokimos.perturbation._invariance",
    "InvarianceReport": "dokimos.perturbation._invariance",
    "KindInvariance": "dokimos.perturbation._invariance",
    "Perturbed": "dokimos.perturbation._perturbing",
    "PerturbationKind": "dokimos.perturbation._kinds",
    "measure_invariance": "dokimos.perturbation._invariance",
    "perturb_dataset": "dokimos.perturbation._perturbing",
}
__all__ = [
    "ChangedAnswer",
    "InvarianceReport",
    "KindInvariance",
    "PerturbationKind",
    "Perturbed",
    "measure_invariance",
    "perturb_dataset",
]

if not TYPE_CHECKING:  # so that type checkers still report a name that does not exist
    __getattr__, __dir__ = lazy_exports(__name__, _MODULE_OF)
