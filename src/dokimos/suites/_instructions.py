"""The instructions of a declared agent: their text without front matter, and their version."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dokimos._core.yaml_scalars import load_yaml
from dokimos.errors import ConfigurationError

if TYPE_CHECKING:
    from dokimos.suites._schema import Instructions

_FRONT_MATTER: Final = re.compile(
    r"\A---[ \t]*\r?\n(.*?)(?:^|\r?\n)---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """Instructions as they were read."""

    text: str
    version: str
    """As the front matter says, else `auto-` and a mark of the text."""
    front_matter: Mapping[str, Any] = field(default_factory=dict)


def read_instructions(block: Instructions, folder: Path) -> Prompt:
    """Read instructions; their file is relative to `folder`.

    Raises:
        ConfigurationError: where the file cannot be read, its front matter is not a map, or no text is left.
    """
    if block.inline is not None:
        return Prompt(text=block.inline, version=hash_version(block.inline))
    path = folder / str(block.file)
    try:
        return parse_prompt(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise ConfigurationError(f"there is no file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from None
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from None


def parse_prompt(content: str) -> Prompt:
    """Take front matter off a text. Raises `ConfigurationError` where it is not a map, or nothing is left."""
    match = _FRONT_MATTER.match(content)
    front_matter = _parse_front_matter(match[1]) if match else {}
    text = content[match.end() :].strip() if match else content.strip()
    if not text:
        raise ConfigurationError("it contains no instructions")
    version = front_matter.get("version")
    return Prompt(
        text=text, version=hash_version(text) if version is None else str(version), front_matter=front_matter
    )


def hash_version(text: str) -> str:
    """Return what tells one text from another where nobody has given it a version."""
    return f"auto-{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:8]}"


def _parse_front_matter(text: str) -> dict[str, Any]:
    import yaml

    try:
        tree = load_yaml(text, texts=("version",))
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigurationError(f"the front matter is not valid YAML: {error}") from None
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise ConfigurationError("the front matter must be a map, such as version: 1.2")
    return {str(key): value for key, value in tree.items()}
