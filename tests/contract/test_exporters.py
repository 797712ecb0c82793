"""Our exporters keep the contract that those of other packages are tested against."""

import pytest

from dokimos import load_result
from dokimos.exporters._base import BUILT_IN, exporter
from dokimos.testing.contracts import ExporterContract


class TestHtml(ExporterContract):
    exporter = exporter("html")


class TestMarkdown(ExporterContract):
    exporter = exporter("markdown")


class TestCsv(ExporterContract):
    exporter = exporter("csv")


class TestJUnit(ExporterContract):
    exporter = exporter("junit")


class TestJson(ExporterContract):
    exporter = exporter("json")

    def read_back(self, report):
        return load_result(report)


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_format_is_tested(name):
    tested = [each.exporter.name for each in ExporterContract.__subclasses__() if each.exporter]

    assert name in tested
