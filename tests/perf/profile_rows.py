"""Where the time of decode and upload goes: the ratio of these rows is a share of the whole."""

from __future__ import annotations

import cProfile
import pstats
import time
from collections.abc import Callable, Iterator

import botocore.httpsession

from tests.perf.decode_rows import partition_of, replay
from tests.perf.make_log import LogShape, made
from tests.perf.measure import Row
from tests.perf.scale import Scale
from tests.perf.upload_rows import BUCKET, Uploads
from tiersnap.jobs.demo.embedded_s3 import embedded_s3, make_bucket

_LEAST_SHARE = 0.04


def rows(scale: Scale) -> Iterator[Row]:
    """Decode of 4 KiB batches, and the end of an upload to moto."""
    log = made(LogShape(4096, scale.log_bytes, scale.log_bytes // 16))
    partition = partition_of(log)
    yield from _shares("decode and fold, 4 KiB", log.batches, lambda: replay(partition, check_crc=False))
    yield from _shares("the same with CRC, 4 KiB", log.batches, lambda: replay(partition, check_crc=True))
    yield from _end_of_upload(scale)


def _shares(what: str, batches: int, work: Callable[[], object]) -> Iterator[Row]:
    """Functions by the time they take themselves, those that matter."""
    work()
    profile = cProfile.Profile()
    profile.runcall(work)
    stats = pstats.Stats(profile)
    whole = stats.total_tt  # type: ignore[attr-defined]
    functions = stats.stats.items()  # type: ignore[attr-defined]
    for (_, _, name), (_, _, seconds, _, _) in sorted(functions, key=lambda item: -item[1][2]):
        if seconds / whole < _LEAST_SHARE:
            break
        yield _share(f"{what}: {name}", seconds, whole, f"{seconds / batches * 1e9:.0f} ns a batch")


def _share(what: str, seconds: float, whole: float, said: str = "") -> Row:
    return Row(what, "", said or f"{seconds:.2f} s", f"{whole:.2f} s in all", seconds / whole, None)


def _end_of_upload(scale: Scale) -> Iterator[Row]:
    """The request that completes an upload, against the upload."""
    send = botocore.httpsession.URLLib3Session.send
    last: list[float] = []

    def timed_send(self: object, request: object) -> object:
        began = time.perf_counter()
        try:
            return send(self, request)  # type: ignore[arg-type]
        finally:
            last[:] = [time.perf_counter() - began]

    botocore.httpsession.URLLib3Session.send = timed_send  # type: ignore[method-assign, assignment]
    try:
        with embedded_s3() as url:
            make_bucket(url, BUCKET)
            uploads = Uploads(url, scale)
            for name, upload in (("ours", uploads.ours), ("boto3", uploads.theirs), ("boto3, whole", uploads.whole)):
                upload(f"{name}-0")
                began = time.perf_counter()
                upload(f"{name}-1")
                whole = time.perf_counter() - began
                yield _share(f"upload to moto, {name}: CompleteMultipartUpload", last[0], whole)
    finally:
        botocore.httpsession.URLLib3Session.send = send  # type: ignore[method-assign]
