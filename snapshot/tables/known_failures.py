"""Known failures of Spark, Delta Lake, Hadoop and delta-rs: text patterns, our error and the next step.

Delta's readers raise the same class for a server that does not answer, missing rights and damaged bytes. Only the text
differs, so the table matches texts. The first row that matches decides. A row of a cause precedes the row of its
effect, because a text contains both: a full disk makes a task fail, and a lost worker makes a stage fail.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tiersnap.snapshot.errors import (
    RUN_AGAIN,
    CorruptDataError,
    NoSpaceError,
    RemoteStorageError,
    TiersnapError,
    TransientError,
    UsageError,
)


@dataclass(frozen=True, slots=True)
class KnownFailure:
    """A pattern of a failure's text, and the error that tiersnap raises for it."""

    words: re.Pattern[str]
    error: type[TiersnapError]  # raised instead; it decides the exit code
    sentence: str  # message of the error; {0} and {1} are replaced by the groups of the match
    hint: str
    is_quoted: bool  # whether the line that matched follows the sentence


def _failure(error: type[TiersnapError], sentence: str, hint: str, *words: str, is_quoted: bool = True) -> KnownFailure:
    return KnownFailure(re.compile("|".join(words), re.IGNORECASE), error, sentence, hint, is_quoted)


_PYTHON = (
    "install tiersnap[spark,s3] on the workers and name its Python: --spark-conf spark.pyspark.python=PATH, or "
    "set PYSPARK_PYTHON=PATH before you start a session yourself"
)
_LACKS = "the Python of the Spark workers lacks {0}"
_DELTA = (
    "start the session with Delta's jar, spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension and "
    "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog; tiersnap run --print-submit "
    "names the jar"
)
_MASTERS = "use local[*], spark://HOST:7077, yarn, k8s://HOST:PORT, or sc://HOST:15002 for Spark Connect"
_MEMORY = "give Spark more memory: --spark-conf spark.driver.memory=4g, and spark.executor.memory on a cluster"

KNOWN_FAILURES = (
    # The Python of Spark's workers.
    _failure(
        *(UsageError, "the Spark workers have Python {0}, but the driver has Python {1}", _PYTHON),
        r"Python in worker has different version: ([\w.]+) than that in driver: ([\w.]+)",
        is_quoted=False,
    ),
    _failure(
        *(UsageError, "the Spark workers have no {0}", _PYTHON),
        r'Cannot run program "([^"]+)".*error=2,',
        is_quoted=False,
    ),
    _failure(UsageError, _LACKS, _PYTHON, r"No module named '?(\w+)", is_quoted=False),
    _failure(UsageError, _LACKS, _PYTHON, r"(\w+) >= [\w.]+ must be installed", is_quoted=False),
    # Settings of the session.
    _failure(
        UsageError, "Spark does not know this master", _MASTERS, "Could not parse Master URL", "Invalid master URL"
    ),
    _failure(UsageError, "Spark does not know this server", "sc://HOST:15002", "CONNECT_URL"),
    _failure(
        *(UsageError, "the Spark driver needs more memory than it was given", "--spark-conf spark.driver.memory=1g"),
        "INVALID_DRIVER_MEMORY",
        is_quoted=False,
    ),
    _failure(
        *(
            UsageError,
            "the Spark executors need more memory than they were given",
            "--spark-conf spark.executor.memory=1g",
        ),
        "INVALID_EXECUTOR_MEMORY",
        is_quoted=False,
    ),
    _failure(
        *(
            UsageError,
            "the Spark driver cannot listen on its address",
            "set SPARK_LOCAL_IP=127.0.0.1 before the command",
        ),
        "java.net.BindException",
        "Cannot assign requested address",
    ),
    _failure(
        UsageError,
        "a result is larger than the Spark driver accepts",
        "raise the limits: --spark-conf spark.driver.maxResultSize=2g --spark-conf spark.driver.memory=4g",
        "spark.driver.maxResultSize",
    ),
    _failure(
        TransientError,
        "a Spark broadcast took too long",
        "run the same command again when the cluster is less busy, or with --spark-conf "
        "spark.sql.autoBroadcastJoinThreshold=-1",
        "Could not execute broadcast in",
    ),
    _failure(
        *(UsageError, "this Spark session has no Delta Lake", _DELTA),
        "failed to find the data source: delta",
        "DELTA_CONFIGURE_SPARK_SESSION_WITH_EXTENSION_AND_CATALOG",
        "provider 'delta' does not support external metadata",
        "Cannot find catalog plugin class.*delta",
        "CATALOG_NOT_FOUND",
        is_quoted=False,
    ),
    _failure(
        UsageError,
        "Spark has no file system for the scheme of this location",
        "reading S3 needs hadoop-aws of the Hadoop release of the session: --spark-conf "
        "spark.jars.packages=org.apache.hadoop:hadoop-aws:VERSION",
        "no filesystem for scheme",
        "class .*filesystem.* not found",
    ),
    _failure(
        UsageError,
        "a newer Delta Lake wrote the table",
        "read the table with that Delta Lake, or give an empty --warehouse, which the next run fills",
        "DELTA_UNSUPPORTED_FEATURES",
        "DELTA_INVALID_PROTOCOL_VERSION",
        "InvalidProtocolVersion",
        "unsupported (reader|writer|table) (version|feature)",
        r"reader features? .* not supported",
    ),
    # Disks and files.
    _failure(
        NoSpaceError,
        "a disk has no free space",
        "free space on that disk or in spark.local.dir (--spark-conf spark.local.dir=FOLDER), then run the same "
        "command again: it continues",
        "no space left on device",
        "disk quota exceeded",
        "quota of .* is exceeded",
        "QuotaExceededException",
        r"could only be written to \d+ of the",
        "not enough space",
    ),
    _failure(
        UsageError,
        "too many open files",
        "raise the limit in the shell that starts the command: ulimit -n 65536",
        "too many open files",
    ),
    _failure(
        UsageError,
        "the file system is mounted read-only",
        "mount -o remount,rw; or give another --warehouse",
        "read-only file system",
    ),
    _failure(
        UsageError,
        "this user may not write or read the file",
        "run the command as a user who may, or give another --warehouse",
        r"\(permission denied\)",
        "AccessDeniedException: /",
        "mkdirs failed to create",
        "failed to create (a temp directory|local dir)",
        "DELTA_CANNOT_CREATE_LOG_PATH",
        "permission denied: user=",
        "errno 13",
    ),
    _failure(
        *(TransientError, "too little memory", _MEMORY),
        *("outofmemory", "cannot allocate memory", "memoryerror", "not enough memory"),
    ),
    # Rights and places.
    _failure(
        RemoteStorageError,
        "credentials refused",
        "renew the credentials: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, AWS_PROFILE or a role; "
        "on a cluster also spark.hadoop.fs.s3a.*",
        *("expired ?token", "token (has |is |included in the request is )?(expired|invalid)", "invalidtoken"),
        *("invalidaccesskey", "signaturedoesnotmatch", "InvalidClientTokenId", "RequestExpired"),
    ),
    _failure(
        UsageError,
        "Kerberos does not accept this user",
        "run kinit, or give spark-submit --principal and --keytab",
        *("GSS initiate failed", "Kerberos tgt", "can't be found in cache", "Client cannot authenticate via"),
    ),
    _failure(
        UsageError,
        "the bucket is in another region",
        "set AWS_REGION to the region of the bucket",
        *("permanentredirect", "moved permanently", "authorizationheadermalformed"),
    ),
    _failure(
        RemoteStorageError,
        "refused",
        "check the permissions of this user, and the name of the bucket or folder",
        *("access ?denied", "accesscontrolexception", "permission ?denied", "forbidden", "unauthori[sz]ed"),
        *("nosuchbucket", "invalidbucketname", "unknownstore", "nocredentials", "no aws credentials"),
        "unable to load credentials",
    ),
    # Failures that another writer, server or worker caused.
    _failure(
        TransientError,
        "another writer committed to the table at the same time",
        f"let only one job at a time write to a warehouse, then {RUN_AGAIN}",
        r"\b(Concurrent(Append|DeleteRead|DeleteDelete|Transaction|Write)|MetadataChanged|ProtocolChanged)Exception",
        "DELTA_(CONCURRENT|METADATA_CHANGED|PROTOCOL_CHANGED)",
        "commit conflict|conflicting commit|concurrent transaction",
    ),
    _failure(
        TransientError,
        "Spark lost shuffle files of a worker",
        f"{RUN_AGAIN}; if it happens again, look for killed executors and for a job that cleans spark.local.dir",
        *("FetchFailed", "Missing an output location for shuffle", "has failed the maximum allowable number of times"),
    ),
    _failure(
        TransientError,
        "HDFS does not accept requests yet",
        "run the same command again once the HDFS name node is active and not in safe mode",
        *("name ?node is in safe ?mode", "SafeModeException", "StandbyException", "not supported in state standby"),
    ),
    _failure(
        *(TransientError, "the JVM of the Spark driver ended; its output is printed above", f"{RUN_AGAIN}. {_MEMORY}"),
        *("Py4JNetworkError", "Answer from Java side is empty", "trying to connect to the Java server"),
        is_quoted=False,
    ),
    _failure(
        *(UsageError, "Java did not start; its output is printed above", "Spark 4 needs Java 17 or 21"),
        "JAVA_GATEWAY_EXITED",
        is_quoted=False,
    ),
    _failure(
        *(TransientError, "no answer", "run the same command again"),
        *("error sending request", "error trying to connect", "dns error", "could not resolve", "unknownhost"),
        *("connect(ion)? ?(exception|refused|reset|timed? ?out)", "connect to .* failed", "network_connection"),
        *("unable to execute http request", "noroutetohost", "timed out", "sockettimeout", "slow ?down"),
        *("service ?unavailable", "too ?many ?requests", "all masters are unresponsive"),
        "unable to instantiate .*MetaStoreClient",
    ),
    _failure(
        *(TransientError, "Spark lost a worker", "run the same command again"),
        *("executorlostfailure", "python worker (exited|failed)", "(has been|was) shut ?down", "heartbeat timed out"),
    ),
)

TABLE_DAMAGED = _failure(
    CorruptDataError,
    "the file is not readable as part of a Delta table",
    "restore the warehouse from a backup; or give an empty --warehouse: the next run fills it, and finds the "
    "segments in remote storage",
    *("json ?parse", "malformed", "invalid json", "json error", "unrecognized token", "unexpected character"),
    *("not a parquet file", "parquet ?decoding", "parquet error", "arrow error", "corrupt", "checksum error"),
    *("file_not_exist", "filenotfound", "no such file", "object at location"),
    *("delta_state_recover", "delta_log_file_not_found", "delta_versions_not_contiguous"),
)
"""A table whose files are lost or damaged. Only a reader of tables uses this row, after all rows above."""

STAGE_MET_DAMAGE = _failure(
    *(CorruptDataError, TABLE_DAMAGED.sentence, TABLE_DAMAGED.hint),
    r"FAILED_READ_FILE\.FILE_NOT_EXIST",
    "is not a parquet file. Expected magic number",
    "ChecksumException: Checksum error",
    "DELTA_(STATE_RECOVER|LOG_FILE_NOT_FOUND|VERSIONS_NOT_CONTIGUOUS)",
)
"""Damage of a table that a stage of the pipeline reads. The patterns match only messages of table readers."""
