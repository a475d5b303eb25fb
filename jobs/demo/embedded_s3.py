"""moto's S3 server on the loopback address, in a child process, for the demo and for tests.

`python -m tiersnap.jobs.demo.embedded_s3 --port N` is the child process. If moto finds no module `crc32c`, it returns
CRC32 instead of CRC-32C checksums. The child process provides that module from google_crc32c.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import logging
import os
import socket
import subprocess
import sys
import time
import types
import urllib.error
import urllib.request
from collections.abc import Iterator

from tiersnap.snapshot.errors import MissingExtraError, TransientError
from tiersnap.snapshot.installed import with_extra

_log = logging.getLogger(__name__)

# moto accepts any credentials. They are environment variables, because Spark executors read credentials from these.
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "tiersnap",
    "AWS_SECRET_ACCESS_KEY": "tiersnap",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}
_START_SECONDS = 60


@contextlib.contextmanager
def embedded_s3() -> Iterator[str]:
    """Start a server and yield its URL. When the `with` block ends, stop the server.

    Within the block, environment variables of this process have the credentials and the region for clients.

    Raises:
        MissingExtraError: the server process ends, for example because moto is not installed.
        TransientError: the server does not answer within 60 s.
    """
    port = _free_port()
    url = f"http://127.0.0.1:{port}"
    before = {name: os.environ.get(name) for name in (*ENVIRONMENT, "NO_PROXY")}
    os.environ.update(ENVIRONMENT, NO_PROXY="127.0.0.1")
    command = [sys.executable, "-m", "tiersnap.jobs.demo.embedded_s3", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _await(url, server)
        _log.debug("an S3 server answers at %s, pid %d", url, server.pid)
        yield url
    finally:
        server.terminate()
        server.wait(10)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def make_bucket(url: str, name: str) -> None:
    """Create a bucket on the server at `url`."""
    import boto3

    boto3.client("s3", endpoint_url=url).create_bucket(Bucket=name)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _await(url: str, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end:
        if server.poll() is not None:
            raise MissingExtraError("the embedded S3 server (moto) did not start", hint=with_extra("demo"))
        try:
            with urllib.request.urlopen(url, timeout=1):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise TransientError(f"the embedded S3 server at {url} did not answer within {_START_SECONDS} s")


def _serve(arguments: list[str]) -> None:
    import google_crc32c

    module = types.ModuleType("crc32c")
    module.__spec__ = importlib.machinery.ModuleSpec("crc32c", None)
    vars(module)["crc32c"] = google_crc32c.value
    sys.modules["crc32c"] = module
    from moto.server import main

    main(arguments)


if __name__ == "__main__":
    _serve(sys.argv[1:])
