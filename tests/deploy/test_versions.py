"""All files of a deployment name one version, which exists, and no registry."""

import re

from tests.deploy.deployment_files import DEPLOY, ROOT

from dokimos import __version__

FILES = [
    ROOT / "Dockerfile", ROOT / "docker-compose.yml", ROOT / "docker-compose.dev.yml",
    ROOT / "docs" / "guide" / "server-deployment.md", ROOT / "docs" / "guide" / "mcp.md",
    *(path for path in DEPLOY.rglob("*") if path.is_file()),
]  # fmt: skip
IMAGE = re.compile(r"\bdokimos-(?:mcp-)?server(?::([\w.-]+))?")


def test_images_are_named_with_the_version_of_the_package():
    tags = {(path.name, tag) for path in FILES for tag in IMAGE.findall(path.read_text(encoding="utf-8"))}

    assert {name for name, _ in tags} >= {"docker-compose.yml", "dokimos.yaml", "hardened.yaml", "mcp.md"}
    # Without a tag in the values of the chart, whose version it has.
    assert {tag for _, tag in tags} == {__version__, "dev", ""}


def test_no_image_is_whatever_is_the_latest():
    for path in FILES:
        images = re.findall(r"^\s*image: (\S+)", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert not [name for name in images if name.endswith(":latest")], path
