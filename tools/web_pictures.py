"""Make the pictures of the web interface from the server of the demo.

python tools/web_pictures.py [FOLDER]    # they go to docs/images unless FOLDER is given

It needs playwright and a Chromium, at /usr/bin/chromium or where DOKIMOS_CHROMIUM says.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.request import urlopen

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "server"
CHROMIUM = os.environ.get("DOKIMOS_CHROMIUM", "/usr/bin/chromium")
LARGEST = 200_000
"""Bytes of a picture."""
SIZE = {"width": 1280, "height": 800}


def find_pages(address: str) -> dict[str, tuple[str, str]]:
    """The path of each page by the name of its picture, and what is there once the page is whole."""

    def read(path: str) -> Any:
        with urlopen(f"{address}/api/v1{path}") as answer:
            return json.load(answer)

    experiments = {each["name"]: each["id"] for each in read("/projects/dokimos%20demo/experiments")}

    def newest_run(experiment: str) -> str:
        [run] = read(f"/experiments/{experiments[experiment]}/runs?limit=1")
        return str(run["id"])

    trace = read("/traces?size=1")["content"][0]["traceId"]
    compared = newest_run("capitals")
    return {
        "run": (f"/runs/{newest_run('support answers')}", ".rows .row .said"),
        "comparison": (f"/experiments/{experiments['capitals']}/runs/{compared}/diff", "svg.chart"),
        "review": ("/review-queue", ".review, main h1"),
        "trace": (f"/traces/{trace}", ".span-row"),
    }


def photograph(address: str, target: Path) -> None:
    """Save what a browser shows of each page without scrolling, in light and in dark."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for name, (path, whole) in find_pages(address).items():
            for scheme in ("light", "dark"):
                options: Any = {"viewport": SIZE, "color_scheme": scheme}
                page = browser.new_context(**options).new_page()
                page.goto(address + path)
                page.locator(whole).first.wait_for()
                page.wait_for_load_state("networkidle")
                page.screenshot(path=target / f"web-{name}-{scheme}.png")
                page.context.close()
        browser.close()


def main(arguments: list[str]) -> None:
    """Make all pictures, none of them too large."""
    target = Path(arguments[0]) if arguments else ROOT / "docs" / "images"
    target.mkdir(parents=True, exist_ok=True)
    sys.path.insert(0, str(EXAMPLE))
    import run

    with tempfile.TemporaryDirectory() as name:
        fill = [sys.executable, str(EXAMPLE / "run.py"), "--port", "0", "--folder", name, "--no-wait"]
        subprocess.run(fill, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with run.serve(0, Path(name)) as (_, address):
            photograph(address, target)
    for picture in sorted(target.glob("web-*.png")):
        size = picture.stat().st_size
        print(f"{picture}: {size / 1000:.0f} kB")
        assert size < LARGEST, f"{picture} is too large for a page of the docs"


if __name__ == "__main__":
    main(sys.argv[1:])
