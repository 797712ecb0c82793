"""YAML as version 1.2 has it, where PyYAML reads 1.1."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final

_BOOL: Final = "tag:yaml.org,2002:bool"
_TIMESTAMP: Final = "tag:yaml.org,2002:timestamp"


@cache
def plain_loader() -> Any:
    """Return a loader for `yaml.load` to which only true and false are bools, and dates are text."""
    import yaml

    class Loader(yaml.SafeLoader):
        pass

    Loader.yaml_implicit_resolvers = {
        first: [entry for entry in resolvers if entry[0] not in (_BOOL, _TIMESTAMP)]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    Loader.add_implicit_resolver(_BOOL, re.compile(r"true|True|TRUE|false|False|FALSE"), list("tTfF"))
    return Loader
