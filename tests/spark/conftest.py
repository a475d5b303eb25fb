"""One real local Spark session and one real HTTP S3 server for all Spark tests."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tiersnap.jobs.demo.embedded_s3 import embedded_s3, make_bucket
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.open_store import open_store
from tiersnap.remote_storage.stores.s3_settings import S3Settings
from tiersnap.remote_storage.stores.store_settings import StoreSettings


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """PySpark leaves its py4j and Arrow sockets to the garbage collector, which says so at some later test."""
    for item in items:
        if "tests/spark" in item.path.as_posix():
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))


@pytest.fixture(scope="session")
def s3_url() -> Iterator[str]:
    with embedded_s3() as url:
        yield url


# Small tables are planned and started sooner without these; `make nightly` runs all tests with Spark's defaults.
_QUICK = {"spark.sql.adaptive.enabled": "false", "spark.sql.codegen.wholeStage": "false"}


@pytest.fixture(scope="session")
def spark(s3_url: str) -> Iterator[object]:
    from tiersnap.jobs.pipeline import class_archive
    from tiersnap.jobs.pipeline.session import QUICK_START, open_session

    session = open_session(
        "local[2]",
        {
            "spark.sql.shuffle.partitions": "2",
            # Each test has tables of its own, and Delta Lake keeps what it knows of a table for an hour: in 1 GiB, the
            # default, a quarter of the time went into collecting garbage.
            "spark.driver.memory": "3g",
            "spark.driver.extraJavaOptions": f"{QUICK_START} {class_archive.options()}",
            **({} if os.environ.get("SPARK_DEFAULTS") else _QUICK),
        },
    )
    yield session
    session.stop()


@dataclass(frozen=True)
class Remote:
    """A bucket of a test's own."""

    uri: str
    url: str

    @property
    def options(self) -> list[str]:
        """Options of `tiersnap run` that reach it."""
        return ["--remote", self.uri, "--endpoint-url", self.url, "--path-style", "--region", "us-east-1"]

    @property
    def store(self) -> ObjectStore:
        return open_store(
            self.uri, StoreSettings(S3Settings(endpoint_url=self.url, path_style=True, region="us-east-1"))
        )

    def objects(self) -> dict[str, tuple[int, int]]:
        """Key -> (size, modified ms)."""
        return {info.key: (info.size, info.modified) for info in self.store.list()}


@pytest.fixture
def remote(s3_url: str) -> Remote:
    bucket = f"tier-{uuid.uuid4().hex[:12]}"
    make_bucket(s3_url, bucket)
    return Remote(f"s3://{bucket}/prefix", s3_url)


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    return tmp_path / "warehouse"
