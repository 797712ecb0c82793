"""Where a result comes from, as labelled facts for people."""

from __future__ import annotations

from dokimos._core.results import ExperimentResult


def facts(result: ExperimentResult) -> dict[str, str]:
    """Return what is known, in the order in which it is read."""
    source = result.provenance
    changes = " (with local changes)" if source.git_dirty else ""
    found = {
        "Run": source.run_id,
        "Started": source.started_at,
        "Resumed": source.resumed_at,
        "Ended": source.ended_at,
        "Dataset": source.dataset_name,
        "Dataset size": source.dataset_size,
        "Dataset fingerprint": source.dataset_fingerprint,
        "Duplicate ids": source.duplicate_ids or None,
        "Task": source.task_name,
        "Seed": source.seed,
        "Shard": source.shard,
        "Part": source.partial,
        "Parallelism": source.parallelism,
        "Git commit": f"{source.git_commit}{changes}" if source.git_commit else None,
        "dokimos": source.dokimos_version,
        "Python": source.python_version,
        "Command": " ".join(source.command) or None,
    }
    return {label: str(fact) for label, fact in found.items() if fact is not None}
