"""The server of `dokimos view`: what it says on the terminal, and the browser that it opens."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from dokimos._cli.echo import echo, overwrite_line
from dokimos._core.text import pluralize

if TYPE_CHECKING:
    from dokimos.server._view.run_sources import RunSource

_REDRAW_SECONDS: Final = 0.2
_START_SECONDS: Final = 30.0
"""How long another process may take until it answers."""
_ANSWER_SECONDS: Final = 10.0


def serve_view(results: Sequence[str], run_dir: str | None, port: int | None, *, no_browser: bool) -> int:
    """Show the runs until Ctrl-C, or open the pages of the process that shows them."""
    # As `dokimos serve` does: all that is made until the server answers lives as long as it does.
    gc.disable()
    try:
        return _serve(results, run_dir, port, no_browser=no_browser)
    finally:
        gc.enable()


def _serve(results: Sequence[str], run_dir: str | None, port: int | None, *, no_browser: bool) -> int:
    from dokimos.experiment._run_folders import runs_root
    from dokimos.server._view.run_feed import FeedListener
    from dokimos.server._view.viewing import AlreadyViewed, View

    root = runs_root(run_dir)
    named = [_find_source(result, root) for result in results]
    screen = Screen(root, is_awaited=bool(named), opens_browser=not no_browser and sys.stdout.isatty())
    listener = FeedListener(
        problem=screen.show_problem,
        progress=screen.show_progress,
        up_to_date=screen.show_end,
        named=screen.open_run,
    )
    try:
        View(root=root, named=named, port=port).serve(listener, screen.show_address)
    except AlreadyViewed as taken:
        return _open_other(taken.holder, root, results, run_dir, opens_browser=screen.opens_browser)
    screen.clear()
    echo("Stopped.")
    return 0


def _find_source(result: str, root: Path) -> RunSource:
    from dokimos.experiment._run_folders import find_run
    from dokimos.server._view.folder_run import FolderRun
    from dokimos.server._view.result_file import ResultFile

    path = Path(result)
    return ResultFile(path) if path.is_file() else FolderRun(find_run(result, root))


class Screen:
    """Prints what happens, and opens the browser once it is known at which page."""

    def __init__(self, root: Path, *, is_awaited: bool, opens_browser: bool) -> None:
        self.opens_browser = opens_browser
        self._root = root
        self._is_terminal = sys.stderr.isatty()
        self._address: str | None = None
        self._page: str | None = None if is_awaited else ""
        self._drawn_at = 0.0
        self._is_drawn = False

    def show_address(self, address: str) -> None:
        """Say where the pages are."""
        self.clear()
        echo(f"The runs of {self._root} are shown at {address}   (Ctrl-C stops it)")
        self._address = address
        self._open()

    def open_run(self, run_id: str | None) -> None:
        """Open the browser at a run, or at all of them."""
        self._page = "" if run_id is None else f"/runs/{run_id}"
        self._open()

    def _open(self) -> None:
        if self._address is None or self._page is None:
            return
        if self._page:
            self.clear()
            echo(f"{self._address}{self._page}")
        if self.opens_browser:
            open_browser(f"{self._address}{self._page}")

    def show_problem(self, text: str) -> None:
        """Name a run that cannot be shown, or not whole."""
        self.clear()
        echo(f"! {text}", err=True)

    def show_progress(self, runs: int, total: int, items: int) -> None:
        """Show how much has been read, on a terminal."""
        moment = time.monotonic()
        if self._is_terminal and moment - self._drawn_at >= _REDRAW_SECONDS:
            overwrite_line(f"reading runs: {runs:,} of {total:,}, {pluralize(items, 'item')}")
            self._drawn_at, self._is_drawn = moment, True

    def show_end(self, runs: int) -> None:
        """Say that all that is there has been read."""
        self.clear()
        echo(f"{pluralize(runs, 'run')}; new ones appear by themselves." if runs else "No runs yet.")

    def clear(self) -> None:
        """Remove the line that shows progress."""
        if self._is_drawn:
            overwrite_line("")
            self._is_drawn = False


def open_browser(address: str) -> None:
    """Open a page, in a thread: a browser of the terminal keeps whoever opens it waiting."""
    import webbrowser

    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()


def _open_other(
    holder: str, root: Path, results: Sequence[str], run_dir: str | None, *, opens_browser: bool
) -> int:
    """Open the pages of the process that shows the runs already."""
    from dokimos.errors import ConfigurationError
    from dokimos.server._view.viewing import read_address

    deadline = time.monotonic() + _START_SECONDS
    while (address := read_address(root)) is None or not _answers(address):
        if time.monotonic() > deadline:
            raise ConfigurationError(
                f"Another process{holder} shows these runs and does not answer; stop it and try again."
            )
        time.sleep(0.1)
    echo(f"These runs are shown at {address} already{holder}.")
    ids = [_add_run(result, run_dir, root, address) for result in results]
    page = f"/runs/{ids[0]}" if ids else ""
    if page:
        echo(f"{address}{page}")
    if opens_browser:
        import webbrowser

        webbrowser.open(f"{address}{page}")
    return 0


def _add_run(result: str, run_dir: str | None, root: Path, address: str) -> str:
    """Return the id of a run in another process, which gets it where it has not read it."""
    from dokimos._cli.options import load_result_argument
    from dokimos.client._push import push_result
    from dokimos.server._view.viewing import find_run_id, project_name

    known = find_run_id(root, _find_source(result, root))
    if known is not None:
        return known
    os.environ["no_proxy"] = urlsplit(address).hostname or ""
    return push_result(
        load_result_argument(result, run_dir), server_url=address, project_name=project_name(root), api_key=""
    )


def _answers(address: str) -> bool:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(f"{address}/actuator/health/liveness", timeout=_ANSWER_SECONDS) as answer:
            return bool(answer.status == 200)
    except (OSError, ValueError):
        return False
