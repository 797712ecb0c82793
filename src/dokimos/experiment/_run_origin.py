"""Where the result of a run comes from, gathered while it runs."""

from __future__ import annotations

import datetime
from concurrent.futures import Future
from typing import TYPE_CHECKING

from dokimos._core.provenance import Provenance
from dokimos._runtime.concurrency import start_in_thread
from dokimos._version import __version__
from dokimos.datasets._dataset import Dataset
from dokimos.experiment._redaction import Redaction
from dokimos.experiment._run_description import RunDescription
from dokimos.experiment._run_provenance import (
    CodeProvenance,
    python_version,
    read_code_provenance,
    scrub_source,
)
from dokimos.experiment._run_writer import count_duplicate_ids

if TYPE_CHECKING:
    from dokimos.experiment._experiment import Experiment


class RunOrigin:
    """Knows when the run began, and asks git and the CI system where its code comes from."""

    def __init__(self, plan: Experiment, description: RunDescription, redact: Redaction | None) -> None:
        self._plan = plan
        self._description = description
        self._redact = redact
        self.process_started = datetime.datetime.now().astimezone()
        self.started_at = self.process_started.isoformat(timespec="milliseconds")
        """When the run began: of a resumed run, in its first process."""
        # In a thread: git takes seconds in a large repository, and what it says is needed only at the end.
        self._code_origin: Future[CodeProvenance] = start_in_thread(read_code_provenance)

    def describe(
        self,
        *,
        run_id: str | None,
        seed: int | None,
        shard: tuple[int, int] | None,
        is_resumed: bool,
        seen_examples: int | None,
    ) -> Provenance:
        """Return the provenance of the result, as of now.

        Args:
            run_id: The id of the run, None where it cannot be found by one.
            seed: The seed that it ran with.
            shard: The part of the data set that it ran, with the number of parts.
            is_resumed: Whether an earlier process began it.
            seen_examples: Examples of the data set as far as a stream was read; a data set knows its size.
        """
        dataset = self._plan.dataset
        source = dataset.source
        return Provenance(
            run_id=run_id,
            dokimos_version=__version__,
            python_version=python_version(),
            dataset_name=dataset.name,
            dataset_uri=self._hide(None if source is None else scrub_source(source.uri)),
            dataset_version=None if source is None else source.version,
            dataset_fingerprint=dataset.fingerprint,
            dataset_size=len(dataset) if isinstance(dataset, Dataset) else seen_examples,
            duplicate_ids=count_duplicate_ids(dataset),
            task_name=self._description.identity.task,
            seed=seed,
            shard=None if shard is None else f"{shard[0]}/{shard[1]}",
            partial=None if self._description.part is None else str(self._description.part),
            parallelism=self._plan.parallelism,
            started_at=self.started_at,
            resumed_at=self.process_started.isoformat(timespec="milliseconds") if is_resumed else None,
            ended_at=datetime.datetime.now().astimezone().isoformat(timespec="milliseconds"),
            command=self._description.command,
            **self._describe_code(),
        )

    def _describe_code(self) -> CodeProvenance:
        try:
            origin = self._code_origin.result(timeout=10).copy()
        except Exception:
            return CodeProvenance()
        if self._redact is not None:
            origin["git_branch"] = self._hide(origin.get("git_branch"))
            origin["target_branch"] = self._hide(origin.get("target_branch"))
            origin["build_url"] = self._hide(origin.get("build_url"))
        return origin

    def _hide(self, text: str | None) -> str | None:
        return text if text is None or self._redact is None else self._redact(text)
