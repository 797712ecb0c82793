"""Data sets: their formats, and the resolvers that load them by URI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dokimos._exports import lazy_exports

if TYPE_CHECKING:
    from dokimos.datasets._answer_replay import recorded_task as recorded_task
    from dokimos.datasets._dataset import Columns as Columns
    from dokimos.datasets._dataset import Dataset as Dataset
    from dokimos.datasets._dataset import DatasetStream as DatasetStream
    from dokimos.datasets._dataset_source import DatasetSource as DatasetSource
    from dokimos.datasets._resolver import DatasetResolver as DatasetResolver
    from dokimos.datasets._resolver import register_resolver as register_resolver
    from dokimos.datasets._resolver import unregister_resolver as unregister_resolver

_MODULE_OF: Final = {
    "Columns": "dokimos.datasets._dataset",
    "Dataset": "dokimos.datasets._dataset",
    "DatasetResolver": "dokimos.datasets._resolver",
    "DatasetSource": "dokimos.datasets._dataset_source",
    "DatasetStream": "dokimos.datasets._dataset",
    "recorded_task": "dokimos.datasets._answer_replay",
    "register_resolver": "dokimos.datasets._resolver",
    "unregister_resolver": "dokimos.datasets._resolver",
}
__all__ = [
    "Columns",
    "Dataset",
    "DatasetResolver",
    "DatasetSource",
    "DatasetStream",
    "recorded_task",
    "register_resolver",
    "unregister_resolver",
]

if not TYPE_CHECKING:  # so that type checkers still report a name that does not exist
    __getattr__, __dir__ = lazy_exports(__name__, _MODULE_OF)
