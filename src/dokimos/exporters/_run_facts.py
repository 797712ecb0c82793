"""Where a result comes from, as labelled facts for people."""

from __future__ import annotations

from dokimos._core.provenance import Provenance
from dokimos._core.results import ExperimentResult


def facts(result: ExperimentResult) -> dict[str, str]:
    """Return what is known, in the order in which it is read."""
    source = result.provenance
    changes = " (with local changes)" if source.git_dirty else ""
    labelled = {
        "Run": source.run_id,
        "Started": source.started_at,
        "Resumed": source.resumed_at,
        "Ended": source.ended_at,
        "Dataset": source.dataset_name,
        "Dataset source": _dataset_source(source),
        "Dataset size": source.dataset_size,
        "Dataset fingerprint": source.dataset_fingerprint,
        "Duplicate ids": source.duplicate_ids or None,
        "Task": source.task_name,
        "Seed": source.seed,
        "Shard": source.shard,
        "Part": source.partial,
        "Parallelism": source.parallelism,
        "Git commit": f"{source.git_commit}{changes}" if source.git_commit else None,
        "Git branch": source.git_branch,
        "Pull request": _pull_request(source),
        "Trigger": source.trigger,
        "Build": source.build_url,
        "dokimos": source.dokimos_version,
        "Python": source.python_version,
        "Command": " ".join(source.command) or None,
    }
    return {label: str(fact) for label, fact in labelled.items() if fact is not None}


def _pull_request(source: Provenance) -> str | None:
    if source.pull_request is None:
        return None
    return (
        source.pull_request
        if source.target_branch is None
        else f"{source.pull_request} into {source.target_branch}"
    )


def _dataset_source(source: Provenance) -> str | None:
    if source.dataset_uri is None or source.dataset_version is None:
        return source.dataset_uri
    return f"{source.dataset_uri} (version {source.dataset_version})"
