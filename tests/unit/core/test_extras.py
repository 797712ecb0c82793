"""Optional packages are asked for by the name of their extra."""

from __future__ import annotations

import sys

import pytest

from dokimos._core.extras import require
from dokimos.errors import MissingExtraError


def test_an_installed_module_is_returned():
    assert require("json.decoder", extra="nlp").JSONDecoder().decode("[1]") == [1]


def test_a_missing_module_says_how_to_install_it():
    with pytest.raises(
        MissingExtraError, match=r'no_such_module is not installed.*pip install "dokimos\[nlp\]"'
    ):
        require("no_such_module", extra="nlp")


def test_a_missing_module_is_an_import_error_with_its_cause():
    with pytest.raises(ImportError) as caught:
        require("no_such_module", extra="nlp")
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_a_module_that_breaks_while_it_is_imported_says_why(tmp_path, monkeypatch):
    (tmp_path / "broken_on_import.py").write_text("from json import no_such_name")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingExtraError, match=r"cannot be imported .*no_such_name"):
        require("broken_on_import", extra="nlp")


@pytest.mark.parametrize(
    ("module", "package"),
    [
        ("ruamel.yaml", "ruamel.yaml"),
        ("ruamel.yaml.scalarstring", "ruamel.yaml"),
        ("pptx.package", "python-pptx"),
        ("bs4", "beautifulsoup4"),
        ("google.adk.runners", "google-adk"),
        ("google.genai.types", "google-genai"),
        ("pydantic_ai.models.openai", "pydantic-ai-slim"),
        ("opentelemetry._logs", "opentelemetry-sdk"),
    ],
)
@pytest.mark.parametrize("is_top_missing", [True, False])
def test_a_package_is_called_as_it_is_installed(monkeypatch, module, package, is_top_missing):
    def import_module(name):
        missing = name.partition(".")[0] if is_top_missing else name
        raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)

    monkeypatch.setattr("importlib.import_module", import_module)
    message = rf'^{package} is not installed\. Install it with: pip install "dokimos\[x\]"$'
    with pytest.raises(MissingExtraError, match=message):
        require(module, extra="x")


def test_a_package_that_another_one_needs_is_named_itself(monkeypatch):
    def import_module(name):
        raise ModuleNotFoundError("No module named 'lxml'", name="lxml.etree")

    monkeypatch.setattr("importlib.import_module", import_module)
    with pytest.raises(MissingExtraError, match="lxml is not installed"):
        require("pptx.package", extra="retrieval")


def test_the_package_is_named_rather_than_the_module(monkeypatch):
    monkeypatch.setitem(sys.modules, "json.decoder", None)
    with pytest.raises(MissingExtraError, match="json is not installed"):
        require("json.decoder", extra="nlp")
