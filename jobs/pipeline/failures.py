"""Turn Spark's failures into our errors: a sentence and an exit code, no traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.tables.trouble import of_words

_THEIRS = ("pyspark", "py4j", "grpc")
_WRONG = {
    "JAVA_GATEWAY_EXITED": ("Java did not start; what it said stands above", "Spark 4 needs Java 17 or 21"),
    "Could not parse Master URL": ("Spark knows no such master", "local[*], spark://HOST:7077, yarn or k8s://…"),
    "Invalid master URL": ("Spark knows no such master", "local[*], spark://HOST:7077, yarn or k8s://…"),
    "INVALID_DRIVER_MEMORY": ("Spark itself needs more memory than that", "--spark-conf spark.driver.memory=1g"),
    "INVALID_EXECUTOR_MEMORY": ("Spark itself needs more memory than that", "--spark-conf spark.executor.memory=1g"),
    "CONNECT_URL": ("Spark knows no such server", "sc://HOST:15002"),
}


@contextmanager
def spoken(what: str) -> Iterator[None]:
    """Raise what Spark's classes say within as ours, where it is known; `what` is the subject of the message.

    Raises:
        TransientError: a server or worker went away, or memory is short.
        UsageError: a place or a setting that cannot be.
    """
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith(_THEIRS):
            raise
        told = str(error)
        for word, (message, hint) in _WRONG.items():
            if word in told:
                raise UsageError(f"{what}: {message}", hint=hint) from error
        known = of_words(what, told)
        if known is None:
            raise
        raise known from error
