"""What a run was asked to do on the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dokimos._core.results import ItemResult


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """What a run was asked to do on the command line; kept with it, so that `resume` can do it again."""

    specs: Sequence[str] = ()
    columns: Sequence[str] = ()
    parallelism: int | None = None
    processes: int | None = None
    on: str | None = None
    ray_workers: int | None = None
    ray_resources: str | None = None
    runs: int | None = None
    limit: int | None = None
    filters: Sequence[str] = ()
    shard: str | None = None
    timeout: float | None = None
    evaluator_timeout: float | None = None
    retries: int | None = None
    wait_for_endpoint: float | None = None
    patience: float | None = None
    max_errors: str | None = None
    allow_errors: str | None = None
    name: str | None = None
    budget_usd: float | None = None
    max_tokens: int | None = None
    max_calls: int | None = None
    record: str | None = None
    replay: str | None = None
    cache: bool = False
    server: str | None = None
    project: str | None = None
    no_server: bool = False
    part: Mapping[str, Any] | None = None
    """The items that were chosen, as `Part.tree` has them."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Options of this start only; not kept."""

    @property
    def has_journal(self) -> bool:
        """Whether the run is kept on this machine."""
        return not self.extra.get("no_journal")

    def to_json(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "extra"}
        # By identity: 0 equals False, and `--retries 0` replaces what the experiment says.
        return {
            name: value
            for name, value in values.items()
            if value is not None and value is not False and value not in ((), [])
        }

    def keep_items(
        self, *, all_of_them: bool, on_item_left_out: Callable[[int, ItemResult], None] | None = None
    ) -> RunSettings:
        """Return these settings for a run that keeps all of its items, or only those that did not pass."""
        chosen = {"needs_all_items": all_of_them, "on_item_left_out": on_item_left_out}
        return replace(self, extra={**self.extra, **chosen})
