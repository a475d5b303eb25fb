"""What can be known before a JVM is started is said at once, with the right exit code."""

from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tiersnap as tiersnap_front
from tests.reference.command import assert_said, tiersnap
from tests.reference.small_log import write_small_log
from tiersnap.jobs.pipeline import delta_jars
from tiersnap.jobs.pipeline.before_spark import run_input
from tiersnap.jobs.pipeline.java import check_java
from tiersnap.jobs.pipeline.one_writer import only_run
from tiersnap.jobs.pipeline.session import with_delta
from tiersnap.jobs.pipeline.settings import RunSettings
from tiersnap.jobs.pipeline.spark_options import SparkRequest
from tiersnap.jobs.pipeline.spark_start import check_master, check_spark
from tiersnap.remote_storage.errors import ConditionsIgnoredError
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.snapshot.errors import CorruptDataError, ExitCode, MissingExtraError, TransientError, UsageError
from tiersnap.snapshot.tables.reader_errors import of_table, of_words

pytestmark = pytest.mark.unit


@pytest.fixture
def places(tmp_path: Path) -> list[str | Path]:
    write_small_log(tmp_path / "logs")
    return ["--source", tmp_path / "logs", "--remote", tmp_path / "remote", "--warehouse", tmp_path / "warehouse"]


def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def test_a_spark_master_that_does_not_answer_is_named(places: list[str | Path]) -> None:
    port = closed_port()
    ran = tiersnap("run", *places, "--master", f"spark://127.0.0.1:{port},127.0.0.1:{port}")
    assert_said(ran, ExitCode.TRANSIENT, "no Spark master answers", f"127.0.0.1:{port}")


def test_one_master_of_several_that_answers_is_enough() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        check_master(f"spark://127.0.0.1:{closed_port()},127.0.0.1:{listener.getsockname()[1]}")


@pytest.mark.parametrize("master", ["foo", "spark://host", "spark://host:seven", "spark://host:99999", "mesos://h:1"])
def test_a_master_that_spark_does_not_know_is_a_usage_error(places: list[str | Path], master: str) -> None:
    assert_said(tiersnap("run", *places, "--master", master), ExitCode.USAGE, "--master")


@pytest.mark.parametrize("master", ["", "local", "local[2]", "local[*,3]", "yarn", "k8s://https://host:443"])
def test_what_spark_knows_is_left_to_it(master: str) -> None:
    check_master(master)


def test_without_java_it_is_said_what_is_missing(places: list[str | Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere/at/all")
    assert_said(tiersnap("run", *places), ExitCode.USAGE, "Spark needs Java", "/nowhere/at/all")
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingExtraError, match="no java on the PATH"):
        check_java()


def java_that_prints(folder: Path, version: str) -> str:
    """A JAVA_HOME whose Java prints `version` as a real one does, and fails at everything else."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f'#!/bin/sh\necho \'openjdk version "{version}"\' >&2\ntest "$1" = -version\n')
    java.chmod(0o755)
    return str(folder)


@pytest.mark.parametrize(("version", "release"), [("11.0.22", 11), ("1.8.0_392", 8)])
def test_run_names_a_java_that_is_too_old(
    places: list[str | Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, release: int
) -> None:
    monkeypatch.setenv("JAVA_HOME", java_that_prints(tmp_path / "java", version))
    ran = tiersnap("run", *places)
    assert_said(ran, ExitCode.USAGE, f"Spark needs Java 17 or 21, but {tmp_path}/java/bin/java is Java {release}\n")


@pytest.mark.parametrize("version", ["17.0.15", "21.0.2", "25"])
def test_check_java_takes_a_newer_one(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", java_that_prints(tmp_path / "java", version))
    check_java()


@pytest.mark.parametrize("release", ["3.5.9", "4.0.5"])
def test_run_refuses_a_session_of_an_older_spark(places: list[str | Path], release: str) -> None:
    _, source, _, remote, _, warehouse = map(str, places)
    session = SimpleNamespace(version=release)
    with pytest.raises(UsageError, match=f"^the installed Spark is {release}, but tiersnap needs Spark 4.1 or 4.2$"):
        tiersnap_front.run(session, RunSettings((source,), remote, warehouse))


@pytest.mark.parametrize("release", ["4.1.0", "4.2.0", "4.2.0.dev1", "4.10.0", "5.0.0"])
def test_check_spark_takes_a_newer_one(release: str) -> None:
    check_spark(release)


def test_run_names_the_command_that_fetches_deltas_jars_if_it_cannot(
    places: list[str | Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", java_that_prints(tmp_path / "java", "17.0.15"))
    monkeypatch.setenv("TIERSNAP_JARS", str(tmp_path / "jars"))
    ran = tiersnap("run", *places)
    assert_said(ran, ExitCode.USAGE, f"could not be downloaded into {tmp_path}/jars/delta-spark_")
    assert ran.err.rstrip().endswith("python -m tiersnap.jobs.pipeline.delta_jars")


def test_a_session_that_starts_here_has_deltas_jars_before_those_that_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIERSNAP_JARS", str(tmp_path))
    (delta := delta_jars.folder() / "delta.jar").parent.mkdir()
    delta.write_bytes(b"")
    assert with_delta({"spark.jars": "mine.jar"}) == {
        "spark.jars": f"{delta},mine.jar",
        "spark.driver.extraClassPath": str(delta),
    }
    own = {"spark.jars.packages": "io.delta:delta-spark_4.2_2.13:4.4.0"}
    assert with_delta(own) == own


def refused(places: list[str | Path], name: str, place: str | Path) -> list[str | Path]:
    """`run --apply` with one of its places changed."""
    words = [*places, "--apply"]
    words[words.index(name) + 1] = place
    return ["run", *words]


class Careless(DirectoryStore):
    """Remote storage that overwrites what it was to create only if absent."""

    def put_if_absent(self, key: str, data: bytes, metadata: Any = None) -> Any:
        return self.replace(key, data, metadata)


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """Java is looked for when Spark starts, so an error of anything else came before that."""
    monkeypatch.setenv("JAVA_HOME", "/nowhere/at/all")


before_spark = pytest.mark.usefixtures("no_java")


@before_spark
def test_run_refuses_a_missing_source_and_makes_no_warehouse(places: list[str | Path]) -> None:
    assert_said(tiersnap(*refused(places, "--source", "/nowhere")), ExitCode.USAGE, "/nowhere: no such")
    assert not Path(places[-1]).exists()


@before_spark
def test_run_refuses_sources_of_two_clusters_and_names_both(places: list[str | Path], tmp_path: Path) -> None:
    write_small_log(other := tmp_path / "other", "payments")
    for folder, cluster in ((places[1], "gkKEEwKvSDSIoUcbx_w4Tg"), (other, "Mh2HcX5gS3qxkcsZyYSVhA")):
        Path(folder, "meta.properties").write_text(f"version=1\ncluster.id={cluster}\nnode.id=1\n")
    ran = tiersnap("run", *places, "--source", other)
    assert_said(ran, ExitCode.USAGE, "to two clusters", "gkKEEwKvSDSIoUcbx_w4Tg", "Mh2HcX5gS3qxkcsZyYSVhA")
    assert not Path(places[-1]).exists()


@before_spark
@pytest.mark.parametrize("command", ["decode", "audit"])
def test_spark_commands_refuse_a_missing_source(command: str, tmp_path: Path) -> None:
    assert_said(tiersnap(command, "--source", tmp_path / "nowhere"), ExitCode.USAGE, "nowhere: no such")


@before_spark
@pytest.mark.parametrize("command", ["simulate", "audit"])
def test_spark_commands_refuse_a_warehouse_without_tables(command: str, tmp_path: Path) -> None:
    ran = tiersnap(command, "--warehouse", tmp_path / "nowhere")
    assert_said(ran, ExitCode.USAGE, "nowhere: ", "this warehouse")


@before_spark
@pytest.mark.parametrize("is_there", [False, True])
@pytest.mark.parametrize("is_uri", [False, True])
def test_maintain_tables_refuses_a_place_without_a_warehouse_each_time(
    is_there: bool, is_uri: bool, tmp_path: Path
) -> None:
    place = tmp_path / "mistyped"
    if is_there:
        place.mkdir()
    words = ("maintain", "tables", "--warehouse", place.as_uri() if is_uri else place)
    why = "the folder does not exist" if not is_there and not is_uri else "not a warehouse"
    for apply in ((), ("--apply",), ("--apply",)):
        assert_said(tiersnap(*words, *apply), ExitCode.USAGE, why, "tiersnap run --source")
        assert list(tmp_path.rglob("*")) == [place] * is_there


@before_spark
@pytest.mark.parametrize("words", ["--master {}", "--spark-conf spark.master={}"])
def test_maintain_tables_asks_a_connect_server_whatever_lies_on_this_host(words: str, tmp_path: Path) -> None:
    url, place = f"sc://127.0.0.1:{closed_port()}", tmp_path / "of-the-server"
    ran = tiersnap("maintain", "tables", "--warehouse", place, *words.format(url).split())
    assert_said(ran, ExitCode.TRANSIENT, "no Spark master answers")


def test_spark_remote_names_a_connect_server(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not SparkRequest(None, {}).is_on_server
    monkeypatch.setenv("SPARK_REMOTE", "sc://host:15002")
    assert SparkRequest(None, {}).is_on_server


@before_spark
def test_maintain_tables_waits_for_the_run_that_holds_the_warehouse(places: list[str | Path]) -> None:
    with only_run(str(places[-1]), "another"):
        assert_said(tiersnap("maintain", "tables", *places[-2:]), ExitCode.TRANSIENT, "run another on")


@before_spark
@pytest.mark.parametrize(
    "warehouse", ["gs://bucket/x", "abfss://container@account.dfs.core.windows.net/x", "s3a://bucket/x"]
)
def test_run_refuses_a_warehouse_in_which_it_can_take_no_lease(places: list[str | Path], warehouse: str) -> None:
    for command in (["run", *places[:4]], ["decode", *places[:2]]):
        ran = tiersnap(*command, "--warehouse", warehouse)
        said = f"{warehouse.partition(':')[0]}://: the warehouse cannot be locked"
        assert_said(ran, ExitCode.USAGE, said, "s3://bucket/folder")


@pytest.mark.parametrize("warehouse", [None, "hdfs://host:8020/x", "hdfs:///x", "viewfs://cluster/x"])
def test_only_run_leaves_hdfs_to_the_scheduler(warehouse: str | None) -> None:
    with only_run(warehouse, "first"), only_run(warehouse, "second") as check:
        check()


@before_spark
@pytest.mark.parametrize("is_apply", [False, True])
def test_run_asks_the_bucket(places: list[str | Path], is_apply: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    words = refused(places, "--remote", "s3://bucket/x")[: None if is_apply else -1]
    assert_said(tiersnap(*words), ExitCode.USAGE, "no credentials for S3")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    away = ["--endpoint-url", f"http://127.0.0.1:{closed_port()}", "--path-style", "--region", "us-east-1"]
    assert_said(tiersnap(*words, *away), ExitCode.TRANSIENT, "bucket")


@before_spark
def test_run_refuses_a_place_that_cannot_be_written(places: list[str | Path], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ran = tiersnap(*refused(places, "--remote", tmp_path / "file"))
    assert ran.exit_code == ExitCode.USAGE
    assert "Java" not in ran.err


@before_spark
def test_run_asks_the_cluster_which_replica_leads(places: list[str | Path], tmp_path: Path) -> None:
    write_small_log(tmp_path / "another")
    (properties := tmp_path / "client.properties").write_text("security.protocol=none\n")
    asked = ["--bootstrap-server", "127.0.0.1:9092", "--command-config", properties]
    ran = tiersnap("run", *places, "--source", tmp_path / "another", *asked)
    assert_said(ran, ExitCode.USAGE, "security.protocol")


def test_run_input_refuses_a_store_that_ignores_conditions(places: list[str | Path]) -> None:
    _, source, _, remote, _, warehouse = map(str, places)
    store = Careless(Path(remote))
    with pytest.raises(ConditionsIgnoredError, match="If-None-Match"):
        run_input(RunSettings((source,), remote, warehouse, apply=True), store, None)
    assert list(store.list()) == []


@before_spark
def test_run_waits_for_the_run_that_holds_the_warehouse(places: list[str | Path]) -> None:
    with only_run(str(places[-1]), "another"):
        assert_said(tiersnap("run", *places), ExitCode.TRANSIENT, "run another on", "is using this warehouse")


def test_a_warehouse_on_a_server_that_does_not_answer_is_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{closed_port()}",
    }.items():
        monkeypatch.setenv(name, value)
    assert_said(tiersnap("report", "--warehouse", "s3://bucket/warehouse"), ExitCode.TRANSIENT, "no answer")


def test_a_torn_table_is_damage(tmp_path: Path) -> None:
    log = tmp_path / "partitions" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020d}.json").write_text("{nonsense")
    assert_said(
        tiersnap("report", "--warehouse", tmp_path),
        ExitCode.DATA_CORRUPT,
        "the file is not readable as part of a Delta table",
    )


# As Spark 4 and its Hadoop say them.
SAID = {
    "[FAILED_READ_FILE.NO_HINT] …\nCaused by: java.net.ConnectException: Connection refused": TransientError,
    "[FAILED_READ_FILE.NO_HINT] …\nCaused by: com.amazonaws.SdkClientException: Unable to execute HTTP request": (
        TransientError
    ),
    "[FAILED_READ_FILE.NO_HINT] …\nCaused by: java.lang.OutOfMemoryError: Java heap space": TransientError,
    "java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found": UsageError,
    "s3://b: PermanentRedirect: Received permanent redirect response": UsageError,
    "[FAILED_READ_FILE.FILE_NOT_EXIST] …": CorruptDataError,
    "[FAILED_READ_FILE.NO_HINT] …\nCaused by: com.fasterxml.jackson.core.JsonParseException: …": CorruptDataError,
}


@pytest.mark.parametrize("told", SAID)
def test_a_file_that_could_not_be_read_is_damage_only_where_that_is_said(told: str) -> None:
    assert type(of_table("s3://b/x/segments", told)) is SAID[told]


def test_a_file_that_could_not_be_read_for_no_reason_that_is_known_is_no_damage() -> None:
    error = of_table("s3://b/x/segments", "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file x")
    assert not isinstance(error, CorruptDataError)
    assert error.exit_code is ExitCode.USAGE


def test_names_of_a_stack_trace_say_nothing() -> None:
    assert of_words("it", "boom\n\tat org.x.OutOfMemoryErrorHandler.run(X.java:301)") is None


def test_session_without_delta_lake_is_a_usage_error() -> None:
    told = "An error occurred while calling o29.load.\n: [DATA_SOURCE_NOT_FOUND] Failed to find the data source: delta."
    error = of_table("/warehouse/partitions", told)
    assert isinstance(error, UsageError)
    assert error.message == "/warehouse/partitions: this Spark session has no Delta Lake"


LACKING = {
    "PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different version: "
    "3.12 than that in driver: 3.11, PySpark cannot run": (
        "the Spark workers have Python 3.12, but the driver has Python 3.11"
    ),
    'Cannot run program "/nowhere/python": error=2, No such file or directory': (
        "the Spark workers have no /nowhere/python"
    ),
    "Traceback …\nModuleNotFoundError: No module named 'tiersnap.snapshot'": (
        "the Python of the Spark workers lacks tiersnap"
    ),
    "[PACKAGE_NOT_INSTALLED] PyArrow >= 18.0.0 must be installed; however": (
        "the Python of the Spark workers lacks PyArrow"
    ),
}


@pytest.mark.parametrize("told", LACKING)
def test_python_of_workers_that_lacks_something_is_a_usage_error(told: str) -> None:
    error = of_words(
        "the run failed", f"Job aborted due to stage failure: Python worker exited: {told}\n\tat x.Y(Y.java:1)"
    )
    assert isinstance(error, UsageError)
    assert error.message == f"the run failed: {LACKING[told]}"
    assert "spark.pyspark.python" in error.hint
