"""Turn the failure of a table reader into one of our errors: by its words, as neither reader has classes.

Delta's readers (delta-rs, delta-spark, Hadoop's file systems) give one class for a server that does not answer, a right
that is lacking and bytes that are damaged; which it was stands in the text alone. FAILED_READ_FILE is any of them.
"""

from __future__ import annotations

import re

from tiersnap.snapshot.errors import CorruptDataError, RemoteStorageError, TiersnapError, TransientError, UsageError

_LONGEST = 300
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")  # of delta-rs


def _words(*words: str) -> re.Pattern[str]:
    return re.compile("|".join(words), re.IGNORECASE)


_MEMORY = _words("outofmemory", "cannot allocate memory", "memoryerror", "not enough memory")
_NO_DELTA = _words("failed to find the data source: delta")
_NO_FILE_SYSTEM = _words("no filesystem for scheme", "class .*filesystem.* not found")
_REDIRECT = _words("permanentredirect", "moved permanently", "authorizationheadermalformed")
_DENIED = _words(
    *("access ?denied", "accesscontrolexception", "permission ?denied", "forbidden", "unauthori[sz]ed"),
    *("invalidaccesskey", "signaturedoesnotmatch", "nosuchbucket", "unknownstore", "nocredentials"),
    "no aws credentials",
)
_AWAY = _words(
    *("error sending request", "error trying to connect", "dns error", "could not resolve", "unknownhost"),
    *("connect(ion)? ?(exception|refused|reset|timed? ?out)", "connect to .* failed", "network_connection"),
    *("unable to execute http request", "noroutetohost", "timed out", "sockettimeout", "slow ?down"),
    *("service ?unavailable", "too ?many ?requests", "all masters are unresponsive"),
)
# What the Python of Spark's workers lacks, in the words of Python, PySpark and Java.
_OTHER_PYTHON = re.compile(r"Python in worker has different version: ([\w.]+) than that in driver: ([\w.]+)")
_NO_PYTHON = re.compile(r'Cannot run program "([^"]+)"')
_LACKS = re.compile(r"No module named '?([\w.]+)|(\w+) >= [\w.]+ must be installed")
_WORKER = _words("executorlostfailure", "python worker (exited|failed)", "(has been|was) shut ?down")
_DAMAGED = _words(
    *("json ?parse", "malformed", "invalid json", "json error", "unrecognized token", "unexpected character"),
    *("not a parquet file", "parquet ?decoding", "parquet error", "arrow error", "corrupt"),
    *("file_not_exist", "filenotfound", "no such file", "object at location"),
    *("delta_state_recover", "delta_log_file_not_found", "delta_versions_not_contiguous"),
)


def of_words(what: str, told: str) -> TiersnapError | None:
    """The error that the words of a reader come to; None where they say nothing that is known.

    Args:
        what: place or deed, the subject of the message.
        told: all that was said, stack traces included.
    """
    told = _without_stack(told)
    if lacking := _lacking(told):
        return UsageError(
            f"{what}: {lacking}",
            hint="install tiersnap[spark,s3] there and name it: --spark-conf spark.pyspark.python=PATH, or "
            "PYSPARK_PYTHON=PATH before a session of yours starts: docs/spark.md",
        )
    if found := _MEMORY.search(told):
        return TransientError(
            f"{what}: too little memory: {_line(told, found)}",
            hint="give Spark more: --spark-conf spark.driver.memory=4g, spark.executor.memory on a cluster",
        )
    if _NO_DELTA.search(told):
        return UsageError(
            f"{what}: this Spark session has no Delta Lake",
            hint="start the session with Delta's jar and its two settings: docs/spark.md",
        )
    if found := _NO_FILE_SYSTEM.search(told):
        return UsageError(
            f"{what}: this Spark cannot read such a place: {_line(told, found)}",
            hint="S3 needs hadoop-aws in the session: docs/warehouse.md",
        )
    if found := _REDIRECT.search(told):
        return UsageError(
            f"{what}: the bucket is in another region: {_line(told, found)}", hint="set AWS_REGION to the bucket's"
        )
    if found := _DENIED.search(told):
        return RemoteStorageError(
            f"{what}: refused: {_line(told, found)}", hint="look at the bucket's name and at the rights of this user"
        )
    if found := _AWAY.search(told):
        return TransientError(f"{what}: no answer: {_line(told, found)}", hint="run the same command again")
    if found := _WORKER.search(told):
        return TransientError(f"{what}: a worker was lost: {_line(told, found)}", hint="run the same command again")
    return None


def _lacking(told: str) -> str:
    """Return what is wrong with the Python of Spark's workers; "" if nothing is."""
    if found := _OTHER_PYTHON.search(told):
        return f"the workers have Python {found[1]} and the driver {found[2]}"
    if found := _NO_PYTHON.search(told):
        return f"the workers have no {found[1]}"
    if found := _LACKS.search(told):
        return f"the workers' Python lacks {(found[1] or found[2]).partition('.')[0]}"
    return ""


def of_table(place: str, told: str) -> TiersnapError:
    """The error for a table that cannot be read: damage only where the words say so."""
    known = of_words(place, told)
    if known is not None:
        return known
    told = _without_stack(told)
    found = _DAMAGED.search(told)
    if found is None:
        return RemoteStorageError(f"{place}: cannot be read: {_line(told, None)}", hint="look at the place")
    return CorruptDataError(
        f"{place}: not readable as a Delta table: {_line(told, found)}",
        hint="bring the warehouse back from a copy, or give an empty --warehouse: what is in remote storage is found "
        "there",
    )


def _without_stack(told: str) -> str:
    """Names of classes and methods say nothing of what went wrong."""
    return "\n".join(line for line in told.splitlines() if not line.lstrip().startswith("at "))


def _line(told: str, found: re.Match[str] | None) -> str:
    """The line that says it."""
    start = 0 if found is None else told.rfind("\n", 0, found.start()) + 1
    return _COLOUR.sub("", told[start:].partition("\n")[0]).strip(" \u21b3")[:_LONGEST]
