"""The simulations run in full by hand; here, a small part of them shows that the command works."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = "# Page\n\n<!-- simulated: begin -->\nold\n<!-- simulated: end -->\n\nEnd.\n"


def test_a_quick_run_holds_its_promises_and_writes_its_tables_into_the_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE, encoding="utf-8")
    command = [sys.executable, str(ROOT / "benchmarks" / "validity"), "--quick", "--write", str(page)]

    done = subprocess.run(
        [*command, "--only", "unchanged", "--only", "dropped"], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "All promises hold." in done.stdout
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# Page\n\n<!-- simulated: begin -->\n\n## Early stopping on systems")
    assert text.endswith("|\n\n<!-- simulated: end -->\n\nEnd.\n")
    assert "old" not in text
