"""versitygw, an S3 server that compares checksums: built once from the Go proxy into .cache, run on loopback.

`python -m tests.s3.versitygw` builds it where Go is at hand; tests run what is built and skip themselves without.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests.broker.harness.ports import free_ports

VERSION = "v1.8.0"
PROGRAM = Path(__file__).parents[2] / ".cache" / "versitygw" / VERSION / "versitygw"
_START_SECONDS = 60


def build() -> str:
    """Build it unless it is there; "" or why it is not there."""
    if PROGRAM.exists():
        return ""
    go = shutil.which("go")
    if go is None:
        return "no Go here: versitygw is left out"
    PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    made = subprocess.run(
        [go, "install", f"github.com/versity/versitygw/cmd/versitygw@{VERSION}"],
        env={**os.environ, "GOBIN": str(PROGRAM.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if made.returncode == 0 else f"versitygw was not built: {made.stderr.strip()[-500:]}"


@contextlib.contextmanager
def running(folder: Path, key: str, secret: str) -> Iterator[str]:
    """Run it over an empty folder whose file system has extended attributes; yields its URL.

    Raises:
        RuntimeError: it does not come up.
    """
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    server = subprocess.Popen(
        [PROGRAM, "--port", f"127.0.0.1:{port}", "--quiet", "posix", folder],
        env={"ROOT_ACCESS_KEY": key, "ROOT_SECRET_KEY": secret},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _await(url, server)
        yield url
    finally:
        server.terminate()
        server.wait(30)


def _await(url: str, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end and server.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=1):
                return
        except urllib.error.HTTPError:
            return  # it wants a signature
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"versitygw at {url} did not answer within {_START_SECONDS} s")


if __name__ == "__main__":
    reason = build()
    print(reason or PROGRAM)
    sys.exit(bool(reason))
