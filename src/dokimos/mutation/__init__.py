"""The mutation score of a suite: how many seeded faults in recorded answers its metrics notice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dokimos._exports import lazy_exports

if TYPE_CHECKING:
    from dokimos.mutation._kinds import MutationKind as MutationKind
    from dokimos.mutation._mutants import Mutant as Mutant
    from dokimos.mutation._mutants import make_mutants as make_mutants
    from dokimos.mutation._report import ExcludedAnswers as ExcludedAnswers
    from dokimos.mutation._report import KindScore as KindScore
    from dokimos.mutation._report import MetricMutations as MetricMutations
    from dokimos.mutation._report import MutationReport as MutationReport
    from dokimos.mutation._report import Survivor as Survivor
    from dokimos.mutation._scoring import measure_mutation_score as measure_mutation_score

_MODULE_OF: Final = {
    "ExcludedAnswers": "dokimos.mutation._report",
    "KindScore": "dokimos.mutation._report",
    "MetricMutations": "dokimos.mutation._report",
    "Mutant": "dokimos.mutation._mutants",
    "MutationKind": "dokimos.mutation._kinds",
    "MutationReport": "dokimos.mutation._report",
    "Survivor": "dokimos.mutation._report",
    "make_mutants": "dokimos.mutation._mutants",
    "measure_mutation_score": "dokimos.mutation._scoring",
}
__all__ = [
    "ExcludedAnswers",
    "KindScore",
    "MetricMutations",
    "Mutant",
    "MutationKind",
    "MutationReport",
    "Survivor",
    "make_mutants",
    "measure_mutation_score",
]

if not TYPE_CHECKING:  # so that type checkers still report a name that does not exist
    __getattr__, __dir__ = lazy_exports(__name__, _MODULE_OF)
