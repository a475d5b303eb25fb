"""A real HTTP S3 server on loopback, one a test run, and a bucket of its own for every test.

The server is moto's. What it cannot prove: it stores what it is sent whatever checksum came with it (S3 answers
BadDigest), and HEAD then repeats the checksum of the request. So tests of damage do not rely on it: they change bytes
or headers on the way (`fault_proxy`) or in the file of a directory store, or ask versitygw, which compares. With
S3_ENDPOINT_FOR_TESTS=http://host:port another server is tested, which takes `testing` for access key and secret.
"""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.protocol.memory_store import MemoryStore
from tests.s3 import versitygw
from tests.s3.fault_proxy import FaultProxy
from tiersnap.jobs.demo.embedded_s3 import embedded_s3
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.s3_client import client_of
from tiersnap.remote_storage.stores.s3_settings import MIN_PART_SIZE, Checksums, S3Settings
from tiersnap.remote_storage.stores.s3_store import S3Store

_ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "NO_PROXY": "127.0.0.1",
}


@pytest.fixture(scope="session", autouse=True)
def aws_environment() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in _ENVIRONMENT.items():
            patch.setenv(name, value)
        patch.delenv("AWS_PROFILE", raising=False)
        yield


@pytest.fixture(scope="session")
def endpoint(aws_environment: None) -> Iterator[str]:
    if other := os.environ.get("S3_ENDPOINT_FOR_TESTS"):
        yield other
        return
    with embedded_s3() as url:
        yield url


def settings_for(endpoint: str, **changes: object) -> S3Settings:
    defaults = {
        "endpoint_url": endpoint,
        "path_style": True,
        "part_size": MIN_PART_SIZE,
        "read_timeout": 10.0,
        "total_attempts": 3,
    }
    return S3Settings(**{**defaults, **changes})


@pytest.fixture
def bucket(endpoint: str) -> str:
    name = f"bucket-{uuid.uuid4().hex}"
    client_of(settings_for(endpoint)).create_bucket(Bucket=name)
    return name


@pytest.fixture
def s3_store(endpoint: str, bucket: str) -> S3Store:
    return S3Store(bucket, "some/prefix/", settings_for(endpoint))


@pytest.fixture(scope="session")
def comparing_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where that server keeps objects: files below their bucket's name, checksums in extended attributes."""
    return tmp_path_factory.mktemp("versitygw")


@pytest.fixture(scope="session")
def comparing_endpoint(endpoint: str, comparing_folder: Path) -> Iterator[str]:
    """A server that refuses content that has not the checksum which came with it."""
    if not versitygw.PROGRAM.exists():
        pytest.skip("no versitygw: `make test-s3` builds it where Go is at hand")
    # Those of the other server, which may be in the environment already.
    credentials = os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]
    with versitygw.running(comparing_folder, *credentials) as url:
        yield url


@pytest.fixture
def comparing_store(comparing_endpoint: str) -> S3Store:
    """A bucket of its own on that server."""
    name, settings = f"bucket-{uuid.uuid4().hex}", settings_for(comparing_endpoint)
    client_of(settings).create_bucket(Bucket=name)
    return S3Store(name, "some/prefix/", settings)


@pytest.fixture(params=["directory", "memory", "s3", "s3-compat", "versitygw"])
def store(request: pytest.FixtureRequest, tmp_path) -> ObjectStore:
    """Every kind of store; the tests that take it are the contract."""
    if request.param == "directory":
        return DirectoryStore(tmp_path / "store")
    if request.param == "memory":
        return MemoryStore()
    if request.param == "versitygw":
        return request.getfixturevalue("comparing_store")
    checksums = Checksums.COMPAT if request.param == "s3-compat" else Checksums.AWS
    bucket = request.getfixturevalue("bucket")
    return S3Store(bucket, "some/prefix/", settings_for(request.getfixturevalue("endpoint"), checksums=checksums))


@pytest.fixture(scope="session")
def running_proxy(endpoint: str) -> Iterator[FaultProxy]:
    with FaultProxy(endpoint) as running:
        yield running


@pytest.fixture
def proxy(running_proxy: FaultProxy) -> FaultProxy:
    """The proxy, with no rules yet."""
    running_proxy.rules.clear()
    running_proxy.requests.clear()
    return running_proxy


@pytest.fixture
def faulty_store(proxy: FaultProxy, bucket: str) -> S3Store:
    """The S3 server behind a proxy that does what its rules say."""
    return S3Store(bucket, "some/prefix/", settings_for(proxy.url))
