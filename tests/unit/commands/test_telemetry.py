"""Metrics and lineage: what is sent is what was found, and a server that fails or hangs changes nothing."""

from __future__ import annotations

import http.server
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from tests.reference.command import assert_said, tiersnap
from tests.reference.command_lines import commands_in, parse, words_of
from tests.reference.prometheus_text import parse as parse_metrics
from tests.reference.small_log import write_small_log
from tiersnap.jobs.telemetry.lineage import LineageRun, dataset_of, lineage
from tiersnap.jobs.telemetry.metrics import TIMEOUT_SECONDS, attempt
from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.metrics.of_run import of_ended, of_orphans
from tiersnap.snapshot.metrics.prometheus_text import HELP, Sample, prometheus

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[3]
Received = list[tuple[str, str, bytes]]


@pytest.fixture
def server() -> Iterator[tuple[str, Received]]:
    """A server that takes everything: its URL, and (path, content type, body) of what came."""
    received: Received = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append((self.path, self.headers["Content-Type"], body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}", received
        running.shutdown()
        thread.join()


def values(path: Path) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    series, types = parse_metrics(path.read_text(encoding="utf-8"))
    assert set(types.values()) == {"gauge"}
    return series


def of(name: str, command: str = "scan", **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset({"command": command, **labels}.items())


def test_a_scan_writes_what_its_rows_say(tmp_path: Path) -> None:
    write_small_log(tmp_path / "log", "orders")
    write_small_log(tmp_path / "log", "payments", with_snapshots=False)
    path = tmp_path / "tiersnap.prom"
    ran = tiersnap("scan", tmp_path / "log", "--segments", "--metrics-file", path)
    found = values(path)
    for topic in ("orders", "payments"):
        rows = [row for row in ran.rows if row["partition"] == f"{topic}-0"]
        for verdict in {row["verdict"] for row in rows}:
            sizes = [row["size_bytes"] for row in rows if row["verdict"] == verdict]
            assert found[of("tiersnap_segments", topic=topic, verdict=verdict)] == len(sizes)
            assert found[of("tiersnap_segment_bytes", topic=topic, verdict=verdict)] == sum(sizes)
    assert found[of("tiersnap_copy_lag_segments", topic="orders")] == 0
    assert found[of("tiersnap_copy_lag_segments", topic="payments")] == 3
    assert found[of("tiersnap_last_run_exit_code")] == ran.exit_code == 4
    assert path.stat().st_mode & 0o777 == 0o644
    assert [each.name for each in tmp_path.glob("*tiersnap.prom*")] == ["tiersnap.prom"]


def test_tier_tells_what_it_did_and_partitions_when_asked(tmp_path: Path) -> None:
    write_small_log(tmp_path / "log")
    path, remote = tmp_path / "tiersnap.prom", tmp_path / "remote"
    ran = tiersnap(
        "tier", tmp_path / "log", "--remote", remote, "--apply", "--metrics-file", path, "--metrics-by-partition"
    )
    result, found = json.loads(ran.out)["result"], values(path)
    assert found[of("tiersnap_last_run_segments_uploaded", "tier")] == result["segments_uploaded"] == 3
    assert found[of("tiersnap_last_run_bytes_uploaded", "tier")] == result["bytes_uploaded"]
    assert found[of("tiersnap_segments", "tier", topic="orders", partition="0", verdict="UPLOADED")] == 3
    assert abs(found[of("tiersnap_last_success_timestamp_seconds", "tier")] - time.time()) < 600


def test_a_run_that_fails_in_part_keeps_the_success_of_the_one_before(tmp_path: Path) -> None:
    from tiersnap.jobs.telemetry.metrics import Sinks

    sinks = Sinks("scan", tmp_path / "x.prom")
    sinks.send(lambda: of_ended(ExitCode.OK, started_at=1000, finished_at=3500))
    sinks.send(lambda: of_ended(ExitCode.PARTIAL, started_at=5000, finished_at=9000))
    found = values(tmp_path / "x.prom")
    assert found[of("tiersnap_last_success_timestamp_seconds")] == 3.5
    assert found[of("tiersnap_last_run_timestamp_seconds")] == 9
    assert found[of("tiersnap_last_run_duration_seconds", stage="all")] == 4


def test_labels_of_any_text_are_read_back_as_they_were() -> None:
    texts = ['a"b', "back\\slash", "line\nbreak", "\\n", "ü", "", 'x="y",z="']
    samples = [
        Sample("tiersnap_findings", number + 0.5, {"command": "scan", "topic": text})
        for number, text in enumerate(texts)
    ]
    found, _ = parse_metrics(prometheus(samples))
    assert found == {of("tiersnap_findings", topic=text): number + 0.5 for number, text in enumerate(texts)}


def test_a_push_gateway_gets_the_same_text(tmp_path: Path, server: tuple[str, Received]) -> None:
    write_small_log(tmp_path / "log")
    url, received = server
    for address in (url, f"{url}/metrics/job/tiersnap/cluster/eu"):
        assert tiersnap("scan", tmp_path / "log", "--pushgateway", address).exit_code == 0
    assert [path for path, _, _ in received] == [
        "/metrics/job/tiersnap/command/scan",
        "/metrics/job/tiersnap/cluster/eu",
    ]
    found, _ = parse_metrics(received[0][2].decode())
    assert found[of("tiersnap_segments", topic="orders", verdict="READY")] == 3


@pytest.mark.parametrize("url", ["http://[host:9091", "ftp://host/x", "host:9091", "http:///x", "http://host:99999"])
def test_a_url_that_is_none_is_said_before_the_work(url: str, tmp_path: Path) -> None:
    write_small_log(tmp_path / "log")
    ran = tiersnap("tier", tmp_path / "log", "--remote", tmp_path / "remote", "--apply", "--pushgateway", url)
    assert_said(ran, 2, "is no http URL")
    assert not (tmp_path / "remote").exists()


def test_samples_that_take_too_long_are_not_sent_half_made(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    from tiersnap.jobs.telemetry.metrics import Sinks

    go_on = threading.Event()

    def slow() -> Iterator[Sample]:
        yield Sample("tiersnap_findings", 1)
        go_on.wait(60)

    Sinks("scan", tmp_path / "x.prom").send(slow)
    go_on.set()
    assert not (tmp_path / "x.prom").exists()
    assert "no answer within 2 s" in caplog.text


@pytest.mark.parametrize("way", ["--metrics-file", "--pushgateway"])
def test_what_cannot_be_sent_changes_nothing(way: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_small_log(tmp_path / "log")
    nowhere = {
        "--metrics-file": str(tmp_path / "no" / "such" / "folder" / "x.prom"),
        "--pushgateway": "http://127.0.0.1:1/",
    }[way]
    plain = tiersnap("scan", tmp_path / "log")
    ran = tiersnap("scan", tmp_path / "log", way, nowhere)
    assert (ran.exit_code, ran.out) == (plain.exit_code, plain.out)
    assert way in caplog.text


def test_a_server_that_hangs_is_waited_for_two_seconds(caplog: pytest.LogCaptureFixture) -> None:
    started = time.monotonic()
    hangs = threading.Event()
    attempt("metrics", hangs.wait)
    waited = time.monotonic() - started
    hangs.set()
    assert waited >= TIMEOUT_SECONDS
    assert "no answer within 2 s" in caplog.text


def test_a_password_in_a_url_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise OSError("http://me:secret@host refused")

    attempt("metrics", fail)
    assert "secret" not in caplog.text


@pytest.mark.parametrize("fails", [False, True])
def test_a_run_tells_openlineage_when_it_begins_and_how_it_ends(fails: bool, server: tuple[str, Received]) -> None:
    url, received = server
    run = LineageRun("20261122T090000Z-abcdef", "run", ["/var/lib/kafka"], ["s3://bucket/tiers", "/tmp/warehouse"])
    try:
        with lineage(url, run):
            run.facts |= {"segments_uploaded": 3}
            if fails:
                raise ZeroDivisionError
    except ZeroDivisionError:
        assert fails
    first, last = [json.loads(body) for _, _, body in received]
    assert [path for path, _, _ in received] == ["/api/v1/lineage"] * 2
    assert (first["eventType"], last["eventType"]) == ("START", "FAIL" if fails else "COMPLETE")
    assert first["run"]["runId"] == last["run"]["runId"]
    # What the specification requires of an event, a dataset and a facet.
    for event in (first, last):
        assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", event["run"]["runId"])
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", event["eventTime"])
        assert {"producer", "schemaURL", "job"} <= set(event)
        assert all(set(each) == {"namespace", "name"} for each in (*event["inputs"], *event["outputs"]))
    facet = last["run"]["facets"]["kafkaTierSnapshot"]
    assert {"_producer", "_schemaURL"} <= set(facet)
    assert facet["segments_uploaded"] == 3


def test_datasets_are_named_by_place_and_without_passwords() -> None:
    assert dataset_of("s3://key:secret@bucket/a/b") == {"namespace": "s3://bucket", "name": "a/b"}
    assert dataset_of("s3://bucket") == {"namespace": "s3://bucket", "name": "/"}
    assert dataset_of("/var/lib/kafka")["name"] == "/var/lib/kafka"


def test_orphans_are_told_also_where_there_are_none() -> None:
    found, _ = parse_metrics(prometheus(of_orphans(["UPLOAD", "COPY"], [("COPY", 5), ("COPY", 6)])))
    assert found["tiersnap_orphans", frozenset({("kind", "UPLOAD")})] == 0
    assert found["tiersnap_orphan_bytes", frozenset({("kind", "COPY")})] == 11


LABELS = {"command", "topic", "verdict", "stage", "kind", "instance", "job", "version", "partition"}


def expressions() -> dict[str, str]:
    rules = yaml.safe_load((ROOT / "conf/prometheus/tiersnap.rules.yaml").read_text())
    found = {rule["alert"]: rule["expr"] for group in rules["groups"] for rule in group["rules"]}
    dashboard = json.loads((ROOT / "conf/grafana/tiersnap.json").read_text())
    for panel in dashboard["panels"]:
        found |= {f"{panel['title']} {target['refId']}": target["expr"] for target in panel["targets"]}
    return found | {each["name"]: each["query"] for each in dashboard["templating"]["list"] if each["type"] == "query"}


@pytest.mark.parametrize("name", expressions())
def test_rules_and_dashboard_name_metrics_and_labels_that_there_are(name: str) -> None:
    expression = expressions()[name]
    named = set(re.findall(r"\btiersnap_\w+", expression))
    assert named
    assert named <= set(HELP)
    labels = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", expression)
    labels += [each.strip() for group in re.findall(r"by \(([^)]*)\)", expression) for each in group.split(",")]
    assert set(labels) <= LABELS
    for left, right in ("()", "{}", "[]"):
        assert expression.count(left) == expression.count(right)


def test_each_alert_says_what_it_is_and_what_to_do() -> None:
    rules = yaml.safe_load((ROOT / "conf/prometheus/tiersnap.rules.yaml").read_text())
    (group,) = rules["groups"]
    assert len(group["rules"]) == 6
    for rule in group["rules"]:
        assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
        assert re.search(r"tiersnap \w+", rule["annotations"]["description"])


def test_grafanas_own_classes_read_the_dashboard_and_keep_all_of_it() -> None:
    """They forget what they do not know, so that a misspelt field is lost on the way."""
    register_default_plugins()
    given = json.loads((ROOT / "conf/grafana/tiersnap.json").read_text())
    read = json.loads(JSONEncoder().encode(Dashboard.from_json(given)))
    assert kept(read, given) == given


def kept(read: Any, given: Any) -> Any:
    """`read` without the defaults that Grafana fills in: what `given` does not have."""
    if isinstance(read, dict) and isinstance(given, dict):
        return {name: kept(read[name], given[name]) for name in read if name in given}
    if isinstance(read, list) and isinstance(given, list):
        return [kept(*pair) for pair in zip(read, given, strict=True)]
    return read


def test_the_panels_of_the_dashboard_do_not_lie_on_each_other() -> None:
    panels = json.loads((ROOT / "conf/grafana/tiersnap.json").read_text())["panels"]
    cells = [
        (x, y)
        for at in (panel["gridPos"] for panel in panels)
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_the_page_of_metrics_names_each_and_its_commands_parse() -> None:
    page = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(tiersnap_\w+)`", page, re.MULTILINE)) == set(HELP)
    commands = list(commands_in(page))
    assert len(commands) >= 3
    for command in commands:
        parse(words_of(command) or ())


SINKS = ("metrics-file", "pushgateway", "openlineage")


def test_nothing_is_sent_or_written_for_metrics_and_lineage_unless_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [row for row in tiersnap("config").rows if row["setting"] in SINKS]
    assert {row["setting"] for row in found} == set(SINKS)
    assert {(row["value"] or "", row["source"]) for row in found} == {("", "default")}

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a socket was made")

    write_small_log(tmp_path / "logs")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(socket, "socket", refuse)
    for words in (("scan", tmp_path / "logs"), ("tier", tmp_path / "logs", "--remote", tmp_path / "remote", "--apply")):
        assert tiersnap(*words).exit_code in (0, 4)
    assert list((tmp_path / "here").iterdir()) == []
