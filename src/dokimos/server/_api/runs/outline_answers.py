"""What the outline of a run looks like on the wire."""

from __future__ import annotations

from dokimos.server._api.http.spliced_json import splice_json
from dokimos.server._services.runs.run_outline import RunOutline


def outline_json(outline: RunOutline) -> bytes:
    """Return the outline of a run as JSON."""
    return splice_json(
        {
            "ordinals": outline.ordinals,
            "repetitions": outline.repetitions,
            "outcomes": "".join(outline.outcomes),
            "latenciesMs": outline.latencies_ms,
            "evaluators": [
                {
                    "evaluatorName": column.evaluator,
                    "scores": column.scores,
                    "outcomes": "".join(column.outcomes),
                }
                for column in outline.columns.values()
            ],
            "excludedEvaluators": sorted(outline.excluded),
        }
    )
