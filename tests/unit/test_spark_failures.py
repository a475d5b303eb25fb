"""What Spark, Delta Lake, Hadoop and delta-rs really said of failures, and the sentence and exit code of each."""

from __future__ import annotations

from pathlib import Path

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from tiersnap.jobs.pipeline.session import spoken
from tiersnap.snapshot.errors import ExitCode, NoSpaceError, TiersnapError, TransientError
from tiersnap.snapshot.tables.known_failures import KNOWN_FAILURES
from tiersnap.snapshot.tables.reader_errors import of_table, of_words

pytestmark = pytest.mark.unit

CASES = Path(__file__).parents[1] / "cases/spark-failures"
TEXTS = {path.stem: path.read_text(encoding="utf-8") for path in CASES.glob("*.txt")}
FULL = "a disk has no free space"
FORBIDDEN = "this user may not write or read the file"
CONFLICT = "another writer committed to the table at the same time"
NO_DELTA = "this Spark session has no Delta Lake"
DAMAGED = "the file is not readable as part of a Delta table"
JVM_ENDED = "the JVM of the Spark driver ended"
BECOMES = {
    "full-new-table": (3, f"{FULL} for file:/lake/full/t: java.io.IOException: No space left on device"),
    "full-parquet": (3, f"{FULL} for file:/lake/full2/t"),
    "full-local-dir": (3, FULL),
    "full-local-dir-start": (3, FULL),
    "worker-enospc": (3, FULL),
    "read-only": (2, "the file system is mounted read-only"),
    "read-only-new": (2, FORBIDDEN),
    "denied-new": (2, FORBIDDEN),
    "denied-append": (2, FORBIDDEN),
    "denied-read": (2, FORBIDDEN),
    "denied-parquet": (2, FORBIDDEN),
    "worker-emfile": (2, "too many open files"),
    "jvm-emfile": (2, "too many open files"),
    "concurrent-append": (3, CONFLICT),
    "concurrent-delete": (3, CONFLICT),
    "metadata-changed": (3, CONFLICT),
    "fetch-failed": (3, "Spark lost shuffle files of a worker"),
    "executors-killed": (3, "Spark lost a worker"),
    "jvm-killed": (3, JVM_ENDED),
    "ro-local-dir-start": (3, JVM_ENDED),
    "broadcast-timeout": (3, "a Spark broadcast took too long"),
    "max-result-size": (2, "a result is larger than the Spark driver accepts"),
    "max-result-size-arrow": (2, "a result is larger than the Spark driver accepts"),
    "newer-delta-reader": (2, "a newer Delta Lake wrote the table"),
    "no-catalog-write": (2, NO_DELTA),
    "no-catalog-save": (2, NO_DELTA),
    "no-catalog-class": (2, NO_DELTA),
    "no-delta-format": (2, NO_DELTA),
    "vacuumed-file": (5, DAMAGED),
    "corrupt-parquet": (5, DAMAGED),
    "crc-mismatch": (5, DAMAGED),
    "no-such-table-file-in-log": (5, DAMAGED),
    "s3a-expiredtoken": (2, "credentials refused"),
    "s3a-invalidaccesskeyid": (2, "credentials refused"),
    "s3a-accessdenied": (2, "refused: java.nio.file.AccessDeniedException: s3a://bucket"),
    "s3a-nosuchbucket": (2, "refused"),
    "rs-expiredtoken": (2, "credentials refused: <Error><Code>ExpiredToken"),
    "rs-accessdenied": (2, "refused"),
    "rs-nosuchbucket": (2, "refused"),
    "rs-invalidbucketname": (2, "refused"),
    "rs-slowdown": (3, "no answer"),
}


def raised_for(name: str) -> TiersnapError:
    """What a command raises: a socket of a JVM that has ended raises Python's own error, all else is py4j's."""
    kind, _, text = TEXTS[name].partition(": ")
    errors = {"ConnectionRefusedError": ConnectionRefusedError, "Py4JNetworkError": Py4JNetworkError}
    with pytest.raises(TiersnapError) as caught, spoken("the run failed"):
        raise errors.get(kind, Py4JError)(text)
    return caught.value


def test_every_text_is_told_of() -> None:
    assert set(TEXTS) == set(BECOMES)
    assert len(TEXTS) > 30


@pytest.mark.parametrize("name", BECOMES)
def test_text_becomes_a_sentence_with_exit_code_and_next_step(name: str) -> None:
    error, (code, sentence) = raised_for(name), BECOMES[name]
    assert error.message.startswith(f"the run failed: {sentence}")
    assert error.exit_code == code
    assert error.hint
    assert "\n" not in error.message + error.hint
    assert len(error.message) < 450


@pytest.mark.parametrize("name", [each for each in BECOMES if each.startswith("rs-")])
def test_reader_of_a_table_says_the_same(name: str) -> None:
    error, (code, sentence) = of_table("s3://bucket/t", TEXTS[name]), BECOMES[name]
    assert (error.exit_code, error.message.startswith(f"s3://bucket/t: {sentence}")) == (code, True)


def test_full_disk_of_a_warehouse_is_that_of_a_host() -> None:
    assert isinstance(raised_for("full-new-table"), NoSpaceError)
    assert isinstance(raised_for("full-new-table"), TransientError)


def test_no_row_has_another_exit_code_than_those_that_mean_again_or_never() -> None:
    assert {each.error.exit_code for each in KNOWN_FAILURES} == {ExitCode.USAGE, ExitCode.TRANSIENT}
    assert all(each.sentence and each.hint for each in KNOWN_FAILURES)


def test_error_that_is_not_of_spark_stays_what_it_is() -> None:
    with pytest.raises(KeyError), spoken("the run failed"):
        raise KeyError("No space left on device")
    assert of_words("it", "something that nobody has seen") is None
