"""Metrics, in the format of Prometheus."""

import subprocess
import sys

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.server.test_access import ADMIN, ITEM, bearer, make_key, start

from dokimos.server._services.metrics import BOUNDS, Metrics


def read(api, headers=None):
    """The samples, by name and labels."""
    answer = api.get("/metrics", headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def value(samples, name, **labels):
    return samples.get((name, tuple(sorted(labels.items()))))


def test_requests_are_counted_by_route_method_and_class(serve):
    api = serve(api_key="admin-key")
    for number in range(3):
        start(api, f"chat-{number}", headers=ADMIN)
    start(api, headers=bearer("wrong"))
    api.get("/nowhere/4711")
    api.request("BREW", "/nowhere")

    samples = read(api)

    name = "dokimos_http_request_duration_seconds"
    runs = {"route": "/api/v1/projects/{name}/runs", "method": "POST"}
    assert value(samples, f"{name}_count", **runs, status="2xx") == 3
    assert value(samples, f"{name}_count", **runs, status="4xx") == 1
    assert value(samples, f"{name}_bucket", **runs, status="2xx", le="+Inf") == 3
    assert value(samples, f"{name}_sum", **runs, status="2xx") > 0
    assert value(samples, f"{name}_count", route="unmatched", method="GET", status="4xx") == 1
    assert value(samples, f"{name}_count", route="unmatched", method="OTHER", status="4xx") == 1
    assert value(samples, "dokimos_http_requests_in_flight") == 1  # this one
    assert value(samples, "dokimos_failed_logins_total") == 1


def test_items_and_transactions_are_counted(serve):
    api = serve()
    run = start(api).json()["runId"]
    for key in "aab":
        api.post(f"/api/v1/runs/{run}/items", json={"items": [ITEM] * 4}, headers={"Idempotency-Key": key})
    api.get(f"/api/v1/runs/{run}")

    samples = read(api)

    assert value(samples, "dokimos_items_total") == 8  # the repeat stored nothing
    assert value(samples, "dokimos_item_batches_total") == 2
    route = {"route": "/api/v1/runs/{runId}/items", "method": "POST", "status": "2xx"}
    assert value(samples, "dokimos_http_request_duration_seconds_count", **route) == 3
    assert value(samples, "dokimos_database_duration_seconds_count", operation="write") >= 4
    assert value(samples, "dokimos_database_duration_seconds_count", operation="read_page") >= 1
    assert value(samples, "dokimos_database_under_way", operation="write") == 0
    if api.app.state.database.dialect == "postgresql":
        assert value(samples, "dokimos_database_connections", state="most") == 10
    for name in ("dokimos_comparisons_running", "dokimos_event_streams", "dokimos_draining"):
        assert value(samples, name) == 0
    assert value(samples, "dokimos_comparisons_waiting", kind="gate") == 0
    if sys.platform == "linux":
        assert value(samples, "process_cpu_seconds_total") > 0
    assert any(name == "dokimos_build_info" for name, _ in samples)


def test_the_number_of_series_does_not_grow_with_what_is_asked_for(serve):
    api = serve(api_key="admin-key")
    api.get("/api/v1/projects/a/experiments")
    api.get("/nowhere")
    read(api)
    before = set(read(api))
    for number in range(50):
        api.get(f"/api/v1/projects/{number}/experiments")
        api.get(f"/nowhere/{number}")
        api.request(f"M{number}", "/nowhere")
    added = set(read(api)) - before
    assert {dict(labels).get("method") for _, labels in added} <= {"OTHER"}
    text = api.get("/metrics").text
    for secret in ("admin-key", "/nowhere"):
        assert secret not in text


@pytest.mark.parametrize(
    ("settings", "headers", "status"),
    [
        ({"host": "0.0.0.0"}, {}, 200),
        ({"host": "0.0.0.0", "api_key": "admin-key"}, {}, 401),
        ({"host": "0.0.0.0", "api_key": "admin-key"}, bearer("wrong"), 401),
        ({"host": "0.0.0.0", "api_key": "admin-key"}, ADMIN, 200),
        ({"host": "0.0.0.0", "api_key": "admin-key", "public_metrics": True}, {}, 200),
        ({"host": "127.0.0.1", "api_key": "admin-key"}, {}, 200),
    ],
    ids=str,
)
def test_who_may_read_them(serve, settings, headers, status):
    assert serve(**settings).get("/metrics", headers=headers).status_code == status


def test_a_viewer_may_read_them(serve):
    api = serve(host="0.0.0.0", api_key="admin-key")
    assert api.get("/metrics", headers=make_key(api, "VIEWER", "ada")).status_code == 200


def test_they_are_answered_however_busy_the_server_is(serve):
    api = serve(max_requests=0)
    assert api.get("/api/v1/projects").status_code == 503
    assert value(read(api), "dokimos_http_requests_in_flight") == 1


def test_durations_fall_into_buckets():
    metrics = Metrics()
    for seconds in (0.0, 0.005, 0.0051, 59.0, 61.0):
        metrics.comparisons.add((), seconds)
    [series] = metrics.comparisons.series.values()
    assert len(series.buckets) == len(BOUNDS) + 1
    assert (series.buckets[0], series.buckets[1], series.buckets[-2], series.buckets[-1]) == (2, 1, 1, 1)
    assert series.seconds == pytest.approx(120.0101)


def test_a_counter_of_a_name_is_made_once():
    metrics = Metrics()
    metrics.counter("dokimos_alerts_total", "Alerts.", ("outcome",)).add(("sent",))
    metrics.counter("dokimos_alerts_total", "Alerts.", ("outcome",)).add(("sent",), 2)
    [counter] = [each for each in metrics.counters if each.name == "dokimos_alerts_total"]
    assert counter.series == {("sent",): 3}


def test_a_server_that_nobody_watches_does_not_import_the_library(tmp_path):
    code = (
        "import sys; from pathlib import Path; from dokimos.server import ServerSettings, create_app; "
        f"create_app(ServerSettings(data_dir=Path({str(tmp_path)!r}))); "
        "sys.exit('prometheus_client' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("header", ["Forwarded", "X-Forwarded-For"])
def test_metrics_that_a_proxy_of_this_machine_passes_on_need_a_key(serve, header):
    api = serve(api_key="k")
    proxied = {header: "for=8.8.8.8"}
    assert api.get("/metrics").status_code == 200
    assert api.get("/metrics", headers=proxied).status_code == 401
    assert api.get("/metrics", headers={**proxied, "Authorization": "Bearer k"}).status_code == 200
