"""The metrics, the alert rules and the dashboard's queries in a real Prometheus; skipped where there is none."""

from __future__ import annotations

import functools
import http.server
import json
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.reference.command import tiersnap
from tests.reference.small_log import write_small_log

ROOT = Path(__file__).parents[2]
RULES = ROOT / "conf/prometheus/tiersnap.rules.yaml"
DASHBOARD = json.loads((ROOT / "conf/grafana/tiersnap.json").read_text(encoding="utf-8"))

pytestmark = [
    pytest.mark.prometheus,
    pytest.mark.skipif(
        not (shutil.which("prometheus") and shutil.which("promtool")), reason="no prometheus and promtool on the PATH"
    ),
]


def promtool(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["promtool", *words], capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.nightly
def test_each_alert_fires_when_it_should_and_not_before() -> None:
    done = promtool("test", "rules", ROOT / "tests/prometheus/alerts.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.nightly
def test_prometheus_finds_nothing_to_say_of_a_metrics_file(tmp_path: Path) -> None:
    with exported(tmp_path).open() as text:
        done = subprocess.run(
            ["promtool", "check", "metrics"], stdin=text, capture_output=True, text=True, timeout=300, check=False
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def exported(folder: Path) -> Path:
    """The metrics of a scan."""
    write_small_log(folder / "log")
    assert tiersnap("scan", folder / "log", "--metrics-file", folder / "tiersnap.prom").exit_code == 0
    return folder / "tiersnap.prom"


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing of what it serves each second."""


@pytest.fixture(name="prometheus", scope="module")
def fixture_prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a Prometheus that has the rules and scrapes the metrics of a scan once a second."""
    folder = tmp_path_factory.mktemp("prometheus")
    exported(folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder))) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(RULES)],
            "scrape_configs": [
                {
                    "job_name": "tiersnap",
                    "metrics_path": "/tiersnap.prom",
                    "static_configs": [{"targets": [f"127.0.0.1:{served.server_address[1]}"]}],
                    "fallback_scrape_protocol": "PrometheusText0.0.4",
                }
            ],
        }
        if b"version 2" in subprocess.run(["prometheus", "--version"], capture_output=True, check=True).stdout:
            del config["scrape_configs"][0]["fallback_scrape_protocol"]  # type: ignore[index]
        (folder / "prometheus.yml").write_text(json.dumps(config))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        words = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
        with (folder / "prometheus.log").open("w") as log:
            process = subprocess.Popen(
                ["prometheus", *words, f"--web.listen-address={address}"], stdout=log, stderr=subprocess.STDOUT
            )
            try:
                wait_for(lambda: ask(f"http://{address}", "query", query="tiersnap_segments")["result"])
                yield f"http://{address}"
            finally:
                process.terminate()
                process.wait(60)
                served.shutdown()


def ask(url: str, what: str, **words: str) -> Any:
    """`data` of an answer of Prometheus's API."""
    with urllib.request.urlopen(f"{url}/api/v1/{what}?{urllib.parse.urlencode(words)}", timeout=60) as answer:
        found = json.load(answer)
    assert found["status"] == "success", found
    return found["data"]


def wait_for(is_there: Any) -> None:
    until = time.monotonic() + 120
    while True:
        try:
            if is_there():
                return
        except OSError:
            pass
        assert time.monotonic() < until, "nothing was scraped in two minutes"
        time.sleep(0.5)


def test_what_a_scan_says_is_scraped_with_its_labels(prometheus: str) -> None:
    (found,) = ask(prometheus, "query", query='tiersnap_segments{verdict="READY"}')["result"]
    assert (found["metric"]["topic"], found["metric"]["job"], found["value"][1]) == ("orders", "tiersnap", "3")


@pytest.mark.nightly
def test_prometheus_takes_the_rules_and_none_of_them_fails(prometheus: str) -> None:
    def rules() -> list[dict[str, Any]]:
        return [rule for group in ask(prometheus, "rules")["groups"] for rule in group["rules"]]

    wait_for(lambda: rules() and all(rule["health"] != "unknown" for rule in rules()))
    assert {rule["name"]: (rule["health"], rule["state"]) for rule in rules()} == {
        "TiersnapNoRecentSuccess": ("ok", "inactive"),
        "TiersnapBlockedBytesGrow": ("ok", "inactive"),
        "TiersnapNotPublished": ("ok", "inactive"),
        "TiersnapLostProducers": ("ok", "inactive"),
        "TiersnapUnfinishedUploads": ("ok", "inactive"),
        "TiersnapHungCopy": ("ok", "inactive"),
    }


@pytest.mark.nightly
@pytest.mark.parametrize("expression", [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]])
def test_every_query_of_the_dashboard_is_one_that_prometheus_answers(prometheus: str, expression: str) -> None:
    query = re.sub(r"\$__(rate_)?interval|\$__range", "1h", expression)
    query = re.sub(r"\$\{?\w+\}?", ".*", query)
    assert isinstance(ask(prometheus, "query", query=query)["result"], list)
