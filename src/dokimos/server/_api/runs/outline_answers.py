"""What the columns of a run look like on the wire: its outline, and what its items are told apart by."""

from __future__ import annotations

from dokimos.server._api.http.spliced_json import splice_json
from dokimos.server._services.runs.item_attributes import ItemAttributes
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


def item_attributes_json(attributes: ItemAttributes) -> bytes:
    """Return what the items of a run are told apart by, as JSON."""
    return splice_json(
        {
            "ordinals": attributes.ordinals,
            "repetitions": attributes.repetitions,
            "datasetItemIds": attributes.dataset_item_ids,
            "lineageIds": attributes.lineage_ids,
            "exampleIds": attributes.example_ids,
            "metadata": [
                {"name": column.name, "values": column.values, "codes": column.codes}
                for column in attributes.metadata
            ],
        }
    )
