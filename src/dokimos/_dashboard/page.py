"""The page itself: a summary that is read at once, and the items of each run, unpacked when it is opened."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from dokimos._core.jsonable import JsonValue
from dokimos._core.markup import Html, data_element, isolate_text, join, tag, text_element
from dokimos._core.number_format import UNKNOWN, format_or_unknown, percent
from dokimos._dashboard.overview import Verdicts, drop_since
from dokimos._dashboard.run_pack import PackedRun, pack_run
from dokimos.errors import DokimosError
from dokimos.experiment._run_folders import list_run_folders
from dokimos.exporters._html import ITEM_SCRIPTS
from dokimos.exporters._html_page import asset, bundle_scripts, page

_PACKAGE: Final = "dokimos._dashboard"
_SCRIPTS: Final = ("charts.js", "filters.js", "summary.js", "explorer.js", "comparison.js", "dashboard.js")


def dashboard(root: Path, *, name: str | None = None) -> str:
    """Return the runs of a folder as one page that needs nothing else.

    Args:
        root: The folder that holds the run folders.
        name: Only runs of this name.
    """
    collected = Collection(name)
    for folder in list_run_folders(root):
        collected.add(folder)
    return collected.page()


class Collection:
    """Takes up one run after the other; what is kept of each is small."""

    def __init__(self, name: str | None = None) -> None:
        self._name = name
        self._overviews: list[dict[str, JsonValue]] = []
        self._packed_runs: list[str] = []
        self._shared: dict[str, int] = {}
        self._unreadable: list[str] = []
        self._verdicts: dict[str, tuple[str, Verdicts]] = {}
        """Of each name, the last run and what came of its items."""

    def add(self, folder: Path) -> None:
        """Take up a run; one that cannot be read is only named."""
        try:
            run = pack_run(folder)
        except DokimosError as error:
            self._unreadable.append(f"{folder.name}: {error}")
            return
        if run.overview["partial"]:
            return  # its items were chosen, so it has no place among the rates of whole runs
        if run.overview["repeats"] and self._name in (None, run.overview["name"]):
            self._take(run)

    def page(self) -> str:
        """Return the page with all that was taken up."""
        head: dict[str, JsonValue] = {"runs": list(self._overviews), "unreadable": list(self._unreadable)}
        data = [data_element("overview", head)]
        data += [text_element(f"run-{index}", packed) for index, packed in enumerate(self._packed_runs)]
        data.append(text_element("shared", _compress(list(self._shared))))
        return page(
            "dokimos runs",
            (tag("div", id="app"), tag("noscript", self._static())),
            style=asset("report.css") + asset("dashboard.css", _PACKAGE),
            script=_script(),
            data=data,
        )

    def _take(self, run: PackedRun) -> None:
        overview, name = dict(run.overview), str(run.overview["name"])
        before = self._verdicts.get(name)
        if before is not None and (drop := drop_since(before[1], run.verdicts)) is not None:
            overview["drop"] = {**drop, "since": before[0]}
        # Only the last run of each name: memory must not grow with the history.
        self._verdicts[name] = (str(overview["id"]), run.verdicts)
        self._overviews.append(overview)
        self._packed_runs.append(_compress(run.with_shared(self._shared)))

    def _static(self) -> Html:
        head = [tag("th", label) for label in ("Started", "Suite", "Run", "Passed")]
        return join(
            tag("h1", "Runs"),
            tag("p", "JavaScript is off: these are the runs with their pass rates."),
            tag("table", tag("thead", tag("tr", head)), tag("tbody", list(self._rows()))),
        )

    def _rows(self) -> Iterator[Html]:
        for run in reversed(self._overviews):
            rate = run["rate"]
            rate_text = format_or_unknown(percent, rate) if isinstance(rate, float | int) else UNKNOWN
            cells = (str(run["started"])[:16], str(run["name"]), str(run["id"]), rate_text)
            yield tag("tr", [tag("td", isolate_text(cell)) for cell in cells])


def _compress(tree: JsonValue) -> str:
    text = json.dumps(tree, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # zlib, which browsers unpack themselves (DecompressionStream), and base64, as an element holds text.
    return base64.b64encode(zlib.compress(text.encode("utf-8", "backslashreplace"), 6)).decode("ascii")


def _script() -> str:
    parts = [asset(name) for name in ITEM_SCRIPTS]
    parts += [asset(name, _PACKAGE) for name in _SCRIPTS]
    return bundle_scripts(*parts)
