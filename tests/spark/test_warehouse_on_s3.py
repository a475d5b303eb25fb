"""A warehouse on S3, through Hadoop's s3a and Delta Lake, by a user with the rights of conf/iam-policy.json.

It needs `hadoop-aws` and the AWS SDK, 640 MB that Ivy fetches once: only where TIERSNAP_WITH_S3A is set.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.reference.s3_permissions import may, permission
from tests.reference.small_log import write_small_log
from tests.s3.fault_proxy import FaultProxy
from tests.spark.clusters import HOME
from tiersnap.jobs.demo.embedded_s3 import make_bucket

pytestmark = [
    pytest.mark.spark,
    pytest.mark.nightly,
    pytest.mark.skipif("TIERSNAP_WITH_S3A" not in os.environ, reason="TIERSNAP_WITH_S3A=1 fetches 640 MB of jars"),
]

HADOOP = re.findall(r"hadoop-client-api-([\d.]+)\.jar", " ".join(map(str, HOME.glob("jars/*.jar"))))[0]


@pytest.fixture
def guarded(s3_url: str) -> Iterator[tuple[FaultProxy, str]]:
    """A server that refuses what the policy does not allow below `tiers`, and a bucket of it."""
    bucket = f"warehouse-{uuid.uuid4().hex[:12]}"
    make_bucket(s3_url, bucket)
    with FaultProxy(s3_url) as proxy:
        proxy.when(lambda method, path: not may(f"{method} {path}", "tiers"), "answer", status=403, code="AccessDenied")
        yield proxy, bucket


def test_runs_and_maintenance_of_a_warehouse_on_s3_need_what_the_policy_allows(
    guarded: tuple[FaultProxy, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy, bucket = guarded
    logs = tmp_path / "logs"
    logs.mkdir()
    write_small_log(logs)
    conf = {
        "spark.jars.packages": f"org.apache.hadoop:hadoop-aws:{HADOOP}",
        "spark.hadoop.fs.s3a.endpoint": proxy.url,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        # Of many in one request, the proxy would have to read the body to tell which they are.
        "spark.hadoop.fs.s3a.multiobjectdelete.enable": "false",
    }
    place = ["--endpoint-url", proxy.url, "--path-style", "--region", "us-east-1", "--master", "local[2]"]
    place += [word for name, value in conf.items() for word in ("--spark-conf", f"{name}={value}")]
    warehouse = ["--warehouse", f"s3://{bucket}/tiers/warehouse"]
    run = ["run", "--source", str(logs), "--remote", f"s3://{bucket}/tiers/remote", *warehouse, *place, "--apply"]
    run += ["--report", str(tmp_path / "report")]

    first = _tiersnap(*run)
    assert first["segments_decoded"] > 0
    assert first["segments_uploaded"] > 0
    again = _tiersnap(*run)
    assert (again["segments_decoded"], again["segments_uploaded"]) == (0, 0)
    _tiersnap("maintain", "tables", *warehouse, *place, "--apply")
    # delta-rs is told of its server by the environment alone.
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    runs = DeltaTable(f"s3://{bucket}/tiers/warehouse/runs").to_pyarrow_table()
    assert runs.num_rows == 1, "the second found nothing to do"
    assert _tiersnap("report", *warehouse)["rows"]
    asked = {permission(request) for request in proxy.requests if may(request, "tiers")}
    assert {"s3:ListBucket", "s3:GetObject", "s3:PutObject", "s3:DeleteObject"} <= asked


def _tiersnap(*words: str) -> dict[str, Any]:
    """A command in a process of its own, because a JVM has its jars from the start."""
    environment = {**os.environ, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    command = [sys.executable, "-m", "tests.reference.tiersnap", "--output", "json", *words]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600, check=False)
    if "unresolved dependency" in done.stderr:
        pytest.skip("hadoop-aws is not to be had from here")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["result"]
