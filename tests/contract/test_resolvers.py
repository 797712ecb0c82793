"""Our resolvers keep the contract that those of other packages are tested against.

Standard input is not here: it can be read once, which the contract forbids to all others.
"""

import json
from types import MappingProxyType

import pytest

from dokimos.datasets._resolver import FileResolver, PackageResolver
from dokimos.testing.contracts import ResolverContract

ROWS = [
    {"input": "2 + 2", "expected_output": "4", "question": "What is 2 + 2?"},
    {"input": "日本語", "expected_output": "Japanese", "question": "Which language?"},
]


class Folder(ResolverContract):
    """Writes the data set that is loaded into the folder that is the current one."""

    columns = MappingProxyType({"question": "metadata.topic"})

    @pytest.fixture(autouse=True)
    def _data(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        package = tmp_path / "contract_package"
        package.mkdir()
        (package / "__init__.py").write_text("")
        (package / "rows.json").write_text(json.dumps(ROWS), encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path)


class TestFile(Folder):
    resolver = FileResolver()
    uri = "contract_package/rows.json"
    missing_uri = "contract_package/no-such-file.json"


class TestFileUri(Folder):
    resolver = FileResolver()
    uri = "file:contract_package/rows.json"
    missing_uri = "file:contract_package/no-such-file.json"


class TestPackage(Folder):
    resolver = PackageResolver()
    uri = "package:contract_package/rows.json"
    missing_uri = "package:contract_package/no-such-file.json"
