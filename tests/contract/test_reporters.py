"""Our reporters keep the contract that those of other packages are tested against."""

from dokimos import BaseReporter, MemoryReporter
from dokimos.reporting import EvaluationEvents
from dokimos.testing.contracts import ReporterContract


class TestBase(ReporterContract):
    def make_reporter(self):
        return BaseReporter()


class FailingReporter(MemoryReporter):
    def report_item(self, handle, item):
        raise ConnectionError("the collector is down")


class TestMemory(ReporterContract):
    def make_reporter(self):
        return MemoryReporter()

    def make_failing_reporter(self):
        return FailingReporter()

    def read_items(self, reporter):
        return [item for run in reporter.runs for item in run.items]


class TestEvaluationEvents(ReporterContract):
    def make_reporter(self):
        return EvaluationEvents()
