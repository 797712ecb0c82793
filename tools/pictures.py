"""Make the pictures of the README from the demo: a report in the browser, and a gate's verdict on a terminal.

python tools/pictures.py [FOLDER]    # they go to docs/images unless FOLDER is given

It needs playwright and a Chromium, at /usr/bin/chromium or where DOKIMOS_CHROMIUM says.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.terminal_theme import TerminalTheme

from dokimos import GateConfig, RegressionGate
from dokimos.gate._verdict import GateVerdict
from dokimos.reporting._printing import view_of
from dokimos.reporting._terminal import safe_console

ROOT = Path(__file__).parents[1]
CHROMIUM = os.environ.get("DOKIMOS_CHROMIUM", "/usr/bin/chromium")
LARGEST = 200_000
"""Bytes of a picture."""
COLUMNS = 104
DARK = TerminalTheme(
    (22, 27, 34),
    (230, 237, 243),
    [(72, 79, 88), (255, 123, 114), (63, 185, 80), (210, 153, 34),
     (121, 192, 255), (188, 140, 255), (57, 197, 207), (177, 186, 196)],
)  # fmt: skip


def make_report(folder: Path) -> Path:
    """Run the demo and return one of its reports."""
    run = runpy.run_path(str(ROOT / "examples" / "quickstart" / "run.py"))
    run["main"](folder)
    return folder / "support-answers.html"


def make_verdict(folder: Path) -> GateVerdict:
    """Let the example of the gate compare an application with one whose prompt was changed."""
    example = runpy.run_path(str(ROOT / "examples" / "regression_gate.py"))
    before, now = example["run"](example["good"]), example["run"](example["chatty"])
    with contextlib.chdir(folder):
        baseline, accept = Path("tests/baselines/capitals.json"), "dokimos gate latest --update-baseline"
        RegressionGate(baseline, config=GateConfig(update_baseline=True)).check(before)
        return RegressionGate(baseline, accept_command=accept).check(now)


def photograph(report: Path, picture: Path, *, scheme: str) -> None:
    """Save what a browser shows of a report without scrolling."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        options: Any = {"viewport": {"width": 1200, "height": 760}, "color_scheme": scheme}
        page = browser.new_context(**options).new_page()
        page.goto(report.as_uri())
        page.screenshot(path=picture)
        browser.close()


def draw(verdict: GateVerdict, picture: Path) -> None:
    """Save what a terminal shows of a verdict as SVG, which asks no other site for a font."""
    console = safe_console(
        record=True, file=io.StringIO(), width=COLUMNS, force_terminal=True, color_system="truecolor"
    )
    view_of(verdict).print_on(verdict, console, "full")
    svg = console.export_svg(title="dokimos gate latest", theme=DARK, unique_id="gate")
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    picture.write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n", encoding="utf-8")


def main(arguments: list[str]) -> None:
    """Make all pictures, none of them too large."""
    target = Path(arguments[0]) if arguments else ROOT / "docs" / "images"
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with contextlib.redirect_stdout(io.StringIO()):
            report = make_report(folder)
        for scheme in ("light", "dark"):
            photograph(report, target / f"report-{scheme}.png", scheme=scheme)
        draw(make_verdict(folder), target / "gate.svg")
    for picture in sorted(target.iterdir()):
        size = picture.stat().st_size
        print(f"{picture}: {size / 1000:.0f} kB")
        assert size < LARGEST, f"{picture} is too large for a README"


if __name__ == "__main__":
    main(sys.argv[1:])
