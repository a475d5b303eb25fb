"""No output shows the query of a URL, in which a token may be: one test for each kind of output."""

from __future__ import annotations

import gzip
import json
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.reference.command import tiersnap
from tests.reference.log_builder import data_batch, write_partition
from tests.reference.readiness_tables import RUN, row, table
from tests.reference.small_log import write_small_log
from tiersnap.jobs.cli.streams import LogFormat, configure
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.jobs.telemetry.lineage import LineageRun, dataset_of, lineage
from tiersnap.remote_storage.stores.s3_settings import S3Settings
from tiersnap.remote_storage.stores.store_settings import StoreSettings
from tiersnap.remote_storage.verify.local_log import local_logs
from tiersnap.snapshot.errors import RecordedError, TransientError
from tiersnap.snapshot.log.findings import Finding
from tiersnap.snapshot.log.selection import Selection
from tiersnap.snapshot.masking import masked, masked_values
from tiersnap.snapshot.replay.replay_start import Beginnings
from tiersnap.snapshot.report.files import csv_chunks, json_chunks
from tiersnap.snapshot.report.run_info import without_user
from tiersnap.snapshot.report.summary import summarise
from tiersnap.snapshot.report.write import write_report

pytestmark = pytest.mark.unit

SECRET = "wJalrXUtnFEMI"
AWS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1"}


def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def endpoint() -> str:
    return f"http://127.0.0.1:{closed_port()}/?token={SECRET}"


@pytest.mark.parametrize("output", ["table", "json", "jsonl"])
def test_error_of_botocore_names_the_endpoint_without_its_query(
    output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_small_log(tmp_path / "logs")
    for name, value in AWS.items():
        monkeypatch.setenv(name, value)
    words = ("scan", tmp_path / "logs", "--remote", "s3://bucket/tiers", "--endpoint-url", endpoint())
    ran = tiersnap(*words, output=output)
    assert "127.0.0.1" in ran.err
    assert SECRET not in ran.out + ran.err


def test_log_at_debug_names_no_query(tmp_path: Path) -> None:
    write_small_log(tmp_path / "logs")
    words = ["--log-level", "debug", "verify", "--remote", "s3://bucket/tiers", "--endpoint-url", endpoint()]
    program = "from tiersnap.jobs.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, *words], env=os.environ | AWS, capture_output=True, text=True, check=False
    )
    assert "DEBUG" in done.stderr
    assert SECRET not in done.stdout + done.stderr


def test_traceback_of_an_error_that_nobody_caught_names_no_query() -> None:
    program = (
        "import tiersnap.jobs.main as cli\n"
        f"def fail(argv): raise ValueError('https://h/x?sig={SECRET} and secret.key={SECRET}')\n"
        "cli.run = fail; cli.main([])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "ValueError: https://h/x?sig=*** and secret.key=***" in done.stderr


def test_settings_in_the_table_of_runs_hold_no_query() -> None:
    stores = StoreSettings(S3Settings(endpoint_url=f"https://h:9000/?token={SECRET}"))
    place = f"s3://bucket/tiers?versionId={SECRET}"
    settings = RunSettings((f"hdfs://host:8020/logs?user.name={SECRET}",), place, place, stores=stores)
    stored = json.dumps(settings.as_dict(), default=str)
    assert SECRET not in stored
    assert "https://h:9000/?token=***" in stored


def test_settings_without_a_uri_are_stored_as_they_are() -> None:
    settings = RunSettings(("/a",), "/b", "/c", topic="orders?x=1", topic_ids={"orders": "5GXaOJXiRzOuReKRIUWzvw"})
    stored = settings.as_dict()
    assert (stored["topic"], stored["topic_ids"]) == ("orders?x=1", {"orders": "5GXaOJXiRzOuReKRIUWzvw"})
    assert masked_values({"a": [1, None, "b?c"]}) == {"a": [1, None, "b?c"]}


def test_config_shows_no_query(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENLINEAGE", "ENDPOINT_URL", "PUSHGATEWAY", "WAREHOUSE", "SOURCE"):
        monkeypatch.setenv(f"TIERSNAP_{name}", f"https://h/x?sig={SECRET}")
    ran = tiersnap("config", "run")
    assert ran.exit_code == 0
    assert SECRET not in ran.out + ran.err


def test_events_of_openlineage_hold_no_query() -> None:
    places = (f"s3://bucket/a?sig={SECRET}", f"abfss://c@account.dfs.example/x?sig={SECRET}", f"file:/a?sig={SECRET}")
    event = LineageRun("run", "run", places, places).event("START")
    assert SECRET not in json.dumps(event)
    assert dataset_of(places[0]) == {"namespace": "s3://bucket", "name": "a"}


def test_report_pages_and_their_data_hold_no_query(tmp_path: Path) -> None:
    place = f"s3://bucket/x?sig={SECRET}"
    run = replace(RUN, source=place, remote=place, warehouse=place, sources=(place, f"hdfs://h:1/x?sig={SECRET}"))
    report = summarise(table([row("orders", 0, 0, None, "ACTIVE_SEGMENT", log_dir=place)]), run)
    write_report(report, tmp_path)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    texts = [gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes() for path in files]
    texts += ["".join(json_chunks(report)).encode(), "".join(csv_chunks(report)).encode()]
    assert len(files) > 3
    assert any(b"sig=***" in each for each in texts)
    assert not any(SECRET.encode() in each for each in texts)
    assert without_user(f"{place}&a=b") == "s3://bucket/x?sig=***&a=***"
    assert without_user("/var/lib/kafka?data") == "/var/lib/kafka?data"


@pytest.mark.parametrize("output", ["table", "json", "jsonl"])
@pytest.mark.parametrize(
    "words", [("scan",), ("scan", "--segments"), ("repair",), ("doctor",), ("tier", "--remote", "tiers")]
)
def test_rows_and_next_commands_name_a_log_directory_without_its_query(
    output: str, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_small_log(tmp_path / "logs", with_snapshots=False)
    (tmp_path / "tiers").mkdir()
    monkeypatch.chdir(tmp_path)
    name, *more = (word.replace("tiers", str(tmp_path / "tiers")) for word in words)
    ran = tiersnap(name, f"file://{tmp_path}/logs?sig={SECRET}", *more, output=output)
    assert ran.exit_code in (0, 4), ran.err
    assert SECRET not in ran.out + ran.err
    assert "logs" in ran.out + ran.err


def test_log_directories_that_differ_in_their_query_are_two_sources(tmp_path: Path) -> None:
    folder = write_partition(tmp_path, "orders", 0, {0: [data_batch(0, 10, 7, 0, 0)]}, high_watermark=10)
    (folder / "partition.metadata").write_text("damaged")
    sources, findings = [f"file://{tmp_path}?disk={number}" for number in (1, 2)], list[Finding]()
    leading = {("orders", 0): sources[1]}
    logs = local_logs(sources, Selection(), Beginnings(), check_crc=True, findings=findings, leading=leading)
    assert len(logs.logs) == 1
    assert [each.path for each in findings].count(f"{folder}/partition.metadata") == 1


@pytest.mark.parametrize("log_format", list(LogFormat))
def test_a_telemetry_server_that_refuses_is_named_without_its_query(
    log_format: LogFormat, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"http://127.0.0.1:{closed_port()}/x?token={SECRET}"
    configure("warning", log_format)
    with lineage(url, LineageRun("run", "run", (), ())):
        pass
    err = capsys.readouterr().err
    assert "--openlineage http://127.0.0.1" in err
    assert SECRET not in err


@pytest.mark.parametrize("option", ["--openlineage", "--endpoint-url", "--remote", "--warehouse", "--source"])
def test_a_password_in_a_url_is_refused_and_not_repeated(option: str, tmp_path: Path) -> None:
    given = {"--source": str(tmp_path), "--remote": "s3://b/t", "--warehouse": "s3://b/w"}
    scheme = "http" if option in ("--openlineage", "--endpoint-url") else "s3"
    given[option] = f"{scheme}://user:{SECRET}@host/x"
    ran = tiersnap("run", *(word for pair in given.items() for word in pair), "--print-submit")
    assert ran.exit_code == 2
    assert "password" in ran.err
    assert SECRET not in ran.out + ran.err


def test_a_submit_line_shows_no_query(tmp_path: Path) -> None:
    url = f"http://127.0.0.1/x?token={SECRET}"
    words = ("--source", tmp_path, "--remote", "s3://b/t", "--warehouse", "s3://b/w", "--openlineage", url)
    ran = tiersnap("run", *words, "--print-submit", output="table")
    assert ran.exit_code == 0
    assert "127.0.0.1/x?token=***" in ran.out
    assert SECRET not in ran.out + ran.err


def test_error_that_a_table_keeps_holds_no_query() -> None:
    kept = RecordedError.of(TransientError("x"), f'Could not connect to "https://h/b/k?X-Amz-Signature={SECRET}"')
    assert kept.error == 'Could not connect to "https://h/b/k?X-Amz-Signature=***"'


def test_a_long_line_is_masked_without_a_search_at_each_character() -> None:
    """A word of 300,000 characters took most of an hour."""
    line = "Z" * 300_000
    assert masked(f"{line} password=x s3://b/{line}?sig=y") == f"{line} password=*** s3://b/{line}?sig=***"
