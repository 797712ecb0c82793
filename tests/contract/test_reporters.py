"""Our reporters keep the contract that those of other packages are tested against."""

import itertools
import json

import pytest
from aiohttp import web

from dokimos import BaseReporter, MemoryReporter, ServerReporter
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


class TestServer(ReporterContract):
    @pytest.fixture(autouse=True)
    def _serve(self, serve):
        numbers = itertools.count()
        self.items = {}

        def answer(request):
            if request.method == "PATCH":
                return {"status": "updated"}
            if request.raw_path.endswith("/runs"):
                return {"runId": f"run-{next(numbers)}"}
            for item in json.loads(request.body)["items"]:
                self.items[request.raw_path, item["ordinal"], item["repetition"]] = item
            return {"status": "ok"}

        def refuse(request):
            return web.Response(status=500)

        with serve(answer) as server, serve(refuse) as broken:
            self.url, self.broken_url = server.url, broken.url
            yield

    def make_reporter(self):
        return ServerReporter(server_url=self.url, project_name="contract")

    def make_failing_reporter(self):
        return ServerReporter(server_url=self.broken_url, project_name="contract", attempts=1)

    def read_items(self, reporter):
        return list(self.items.values())
