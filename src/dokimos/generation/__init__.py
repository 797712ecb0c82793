"""Cases that a model writes from documents, schemas, traces and cases, for a person to review."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dokimos._exports import lazy_exports

if TYPE_CHECKING:
    from dokimos.generation._generating import Generation as Generation
    from dokimos.generation._generating import generate_cases as generate_cases
    from dokimos.generation._review_case import Rejections as Rejections
    from dokimos.generation._review_case import ReviewCase as ReviewCase
    from dokimos.generation._review_case import ReviewStatus as ReviewStatus
    from dokimos.generation._review_case import SourcePassage as SourcePassage
    from dokimos.generation._review_list import build_dataset as build_dataset
    from dokimos.generation._review_list import read_review_list as read_review_list
    from dokimos.generation._review_list import write_review_list as write_review_list
    from dokimos.generation._sources import SourceKind as SourceKind

_MODULE_OF: Final = {
    "Generation": "dokimos.generation._generating",
    "Rejections": "dokimos.generation._review_case",
    "ReviewCase": "dokimos.generation._review_case",
    "ReviewStatus": "dokimos.generation._review_case",
    "SourceKind": "dokimos.generation._sources",
    "SourcePassage": "dokimos.generation._review_case",
    "build_dataset": "dokimos.generation._review_list",
    "generate_cases": "dokimos.generation._generating",
    "read_review_list": "dokimos.generation._review_list",
    "write_review_list": "dokimos.generation._review_list",
}
__all__ = [
    "Generation",
    "Rejections",
    "ReviewCase",
    "ReviewStatus",
    "SourceKind",
    "SourcePassage",
    "build_dataset",
    "generate_cases",
    "read_review_list",
    "write_review_list",
]

if not TYPE_CHECKING:  # so that type checkers still report a name that does not exist
    __getattr__, __dir__ = lazy_exports(__name__, _MODULE_OF)
