"""What the S3 store does when server, network or credentials fail; requests are real, faults are a proxy's."""

import io
import logging
import os
import random
import socket

import google_crc32c
import pytest

from tests.s3.conftest import settings_for
from tiersnap.remote_storage.errors import ObjectNotFoundError
from tiersnap.remote_storage.stores.object_store import PutOutcome
from tiersnap.remote_storage.stores.requests import Deadline
from tiersnap.remote_storage.stores.s3_client import client_of
from tiersnap.remote_storage.stores.s3_settings import MIN_PART_SIZE, Checksums
from tiersnap.remote_storage.stores.s3_store import S3Store
from tiersnap.snapshot.errors import (
    CorruptDataError,
    ExitCode,
    ObjectExistsError,
    RemoteStorageError,
    TransientError,
    UsageError,
)

pytestmark = pytest.mark.s3

LARGE = random.Random(2).randbytes(2 * MIN_PART_SIZE + 99)  # three parts
CRC = google_crc32c.value(LARGE)


def put_large(store: S3Store, **options: object):
    return store.put_file_if_absent("large", io.BytesIO(LARGE), len(LARGE), **options)


def is_part(method: str, path: str) -> bool:
    return method == "PUT" and "partNumber=" in path


def is_completion(method: str, path: str) -> bool:
    return method == "POST" and "uploadId=" in path


def is_put(method: str, path: str) -> bool:
    return method == "PUT" and "partNumber=" not in path


def anything(method: str, path: str) -> bool:
    return True


def assert_nothing_left(store: S3Store) -> None:
    assert list(store.unfinished_uploads()) == []
    assert list(store.list()) == []


# --- conditions


def test_a_conflict_is_tried_again(proxy, faulty_store):
    rule = proxy.when(is_put, "answer", status=409, code="ConditionalRequestConflict", times=2)
    assert faulty_store.put_if_absent("key", b"mine").outcome is PutOutcome.CREATED
    assert rule.hits == 2
    assert faulty_store.get("key") == b"mine"


def test_a_conflict_at_completion_starts_the_upload_over(proxy, faulty_store):
    rule = proxy.when(is_completion, "answer", status=409, code="ConditionalRequestConflict", times=1)
    assert put_large(faulty_store).outcome is PutOutcome.CREATED
    assert rule.hits == 1
    assert faulty_store.get("large") == LARGE
    assert list(faulty_store.unfinished_uploads()) == []
    assert sum(request.startswith("POST") and request.endswith("?uploads") for request in proxy.requests) == 2


def test_a_conflict_that_stays_is_transient(proxy, faulty_store):
    proxy.when(is_put, "answer", status=409, code="ConditionalRequestConflict")
    with pytest.raises(TransientError, match="other writers"):
        faulty_store.put_if_absent("key", b"mine")


def test_a_writer_that_was_faster_wins_and_our_upload_is_aborted(proxy, faulty_store, s3_store):
    s3_store.put_if_absent("large", b"theirs")
    with pytest.raises(ObjectExistsError):
        put_large(faulty_store)
    assert is_completion_sent(proxy)
    assert s3_store.get("large") == b"theirs"
    assert list(s3_store.unfinished_uploads()) == []


def test_a_writer_that_was_faster_with_the_same_bytes_is_no_error(proxy, faulty_store, s3_store):
    put_large(s3_store)
    assert put_large(faulty_store).outcome is PutOutcome.ALREADY_SAME
    assert is_completion_sent(proxy)
    assert list(s3_store.unfinished_uploads()) == []


def is_completion_sent(proxy) -> bool:
    return any(is_completion(*request.split(" ", 1)) for request in proxy.requests)


# --- lost requests and answers


@pytest.mark.parametrize("action", ["drop", "drop-answer"])
def test_a_lost_put_is_repeated_and_known_for_our_own(proxy, faulty_store, action):
    rule = proxy.when(is_put, action, times=1)
    assert faulty_store.put_if_absent("key", b"mine").outcome.is_ours
    assert rule.hits == 1
    assert faulty_store.get("key") == b"mine"
    assert dict(faulty_store.head("key").metadata) == {}  # the mark by which it was known is not the caller's


@pytest.mark.parametrize("matches", [is_put, is_completion])
def test_what_another_put_with_the_same_bytes_is_not_taken_for_ours(proxy, faulty_store, s3_store, matches):
    put = put_large if matches is is_completion else lambda store: store.put_if_absent("key", b"mine")
    put(s3_store)
    proxy.when(matches, "drop-answer", times=1)
    assert put(faulty_store).outcome is PutOutcome.ALREADY_SAME


@pytest.mark.parametrize("action", ["drop", "drop-answer"])
@pytest.mark.parametrize("matches", [is_part, is_completion])
def test_a_lost_part_or_completion_is_repeated(proxy, faulty_store, matches, action):
    rule = proxy.when(matches, action, times=1)
    put = put_large(faulty_store)
    assert (put.crc32c, put.outcome.is_ours) == (CRC, True)
    assert rule.hits == 1
    assert faulty_store.get("large") == LARGE
    assert list(faulty_store.unfinished_uploads()) == []


def test_a_completion_that_is_answered_with_no_such_upload_is_looked_into(proxy, faulty_store):
    proxy.when(is_completion, "drop-answer", times=1)
    proxy.when(is_completion, "answer", status=404, code="NoSuchUpload", times=1)
    assert put_large(faulty_store).outcome.is_ours


@pytest.mark.parametrize("action", ["drop", "drop-answer"])
def test_a_lost_replacement_is_repeated_and_known_for_our_own(proxy, faulty_store, action):
    before = faulty_store.put_if_absent("key", b"mine")
    rule = proxy.when(is_put, action, times=1)
    after = faulty_store.replace_if("key", b"mine too", before.etag)
    assert (after.outcome.is_ours, rule.hits) == (True, 1)
    assert after.etag == faulty_store.head("key").etag
    assert faulty_store.get("key") == b"mine too"


def test_a_conflict_while_replacing_is_tried_again(proxy, faulty_store):
    before = faulty_store.put_if_absent("key", b"mine")
    rule = proxy.when(is_put, "answer", status=409, code="ConditionalRequestConflict", times=2)
    assert faulty_store.replace_if("key", b"mine too", before.etag).outcome.is_ours
    assert rule.hits == 2


@pytest.mark.parametrize(("status", "code"), [(503, "SlowDown"), (500, "InternalError"), (503, "ServiceUnavailable")])
def test_throttling_is_tried_again_and_then_transient(proxy, faulty_store, status, code):
    rule = proxy.when(is_put, "answer", status=status, code=code)
    with pytest.raises(TransientError, match=code) as raised:
        faulty_store.put_if_absent("key", b"mine")
    assert rule.hits == faulty_store.settings.total_attempts
    assert raised.value.exit_code is ExitCode.TRANSIENT
    assert raised.value.attrs["status"] == status


@pytest.mark.parametrize("matches", [is_part, is_completion])
@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (503, "SlowDown", TransientError),
        (403, "AccessDenied", RemoteStorageError),
        (400, "BadDigest", RemoteStorageError),
    ],
)
def test_whatever_ends_a_multipart_upload_it_is_aborted(proxy, faulty_store, matches, status, code, error):
    proxy.when(matches, "answer", status=status, code=code)
    with pytest.raises(error):
        put_large(faulty_store)
    assert any(request.startswith("DELETE") and "uploadId=" in request for request in proxy.requests)
    assert_nothing_left(faulty_store)


def test_an_upload_that_cannot_be_aborted_is_logged_and_listed(proxy, faulty_store, caplog):
    proxy.when(is_part, "answer", status=403, code="AccessDenied")
    proxy.when(lambda method, _: method == "DELETE", "answer", status=403, code="AccessDenied")
    with caplog.at_level(logging.WARNING), pytest.raises(RemoteStorageError, match="s3:PutObject"):
        put_large(faulty_store)
    assert "could not abort multipart upload" in caplog.text
    proxy.rules.clear()
    left = list(faulty_store.unfinished_uploads())
    assert [upload.key for upload in left] == ["large"]
    assert list(faulty_store.unfinished_uploads("other")) == []
    faulty_store.abort_upload(left[0])
    faulty_store.abort_upload(left[0])
    assert_nothing_left(faulty_store)


# --- time


def test_a_server_that_says_nothing_is_transient_within_its_timeouts(proxy, bucket):
    stall = proxy.when(anything, "stall", seconds=30)
    store = S3Store(bucket, "", settings_for(proxy.url, read_timeout=0.2, total_attempts=2))
    with pytest.raises(TransientError, match=r"[Tt]imeout|timed out"):
        store.get("key")
    assert not stall.outlasted


def test_an_upload_that_is_too_slow_gives_up_and_is_aborted(proxy, bucket):
    proxy.when(is_part, "stall", seconds=2)
    store = S3Store(bucket, "", settings_for(proxy.url, read_timeout=1.0, total_attempts=1))
    with pytest.raises(TransientError, match=r"not finished within 0.3 s"):
        put_large(store, deadline=Deadline(0.3))
    assert_nothing_left(store)


def test_an_unreachable_endpoint_is_transient():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    store = S3Store("bucket", "", settings_for(url, total_attempts=1, connect_timeout=0.5))
    with pytest.raises(TransientError, match=r"127\.0\.0\.1") as raised:
        store.put_if_absent("key", b"")
    assert "endpoint" in raised.value.hint
    failures = store.delete(["a", "b"])
    assert [failure.key for failure in failures] == ["a", "b"]


# --- refusals


def test_a_missing_bucket_is_named_with_what_to_do(endpoint):
    store = S3Store("no-such-bucket", "", settings_for(endpoint))
    uses = [
        lambda: store.put_if_absent("key", b""),
        lambda: put_large(store),
        lambda: list(store.list()),
        lambda: store.get("key"),
        lambda: list(store.unfinished_uploads()),
    ]
    for use in uses:
        with pytest.raises(RemoteStorageError, match="bucket 'no-such-bucket' does not exist") as raised:
            use()
        assert not isinstance(raised.value, ObjectNotFoundError)
        assert "create the bucket" in raised.value.hint
    assert "no-such-bucket" in store.delete(["a"])[0].reason


@pytest.mark.parametrize(
    ("use", "action"),
    [
        (lambda store: store.put_if_absent("key", b""), "s3:PutObject"),
        (lambda store: store.get("key"), "s3:GetObject"),
        (lambda store: store.head("key"), "s3:GetObject"),
        (lambda store: list(store.list()), "s3:ListBucket"),
    ],
)
def test_access_denied_names_the_action_the_key_and_the_grant(proxy, faulty_store, use, action):
    proxy.when(anything, "answer", status=403, code="AccessDenied")
    with pytest.raises(RemoteStorageError, match=f"the server denied {action}") as raised:
        use(faulty_store)
    assert raised.value.attrs["key"].startswith("some/prefix/")
    assert raised.value.hint.startswith(f"give this user the permission {action} on arn:aws:s3:::{faulty_store.bucket}")


def test_an_object_that_may_not_be_deleted_is_reported(proxy, faulty_store):
    for key in ("a", "b"):
        faulty_store.put_if_absent(key, b"x")
    proxy.when(lambda method, path: method == "DELETE" or "?delete" in path, "answer", status=403, code="AccessDenied")
    for keys in (["a"], ["a", "b"]):
        failures = faulty_store.delete(keys)
        assert [failure.key for failure in failures] == keys
        assert "s3:DeleteObject" in failures[0].reason
    assert [found.key for found in faulty_store.list()] == ["a", "b"]


@pytest.mark.parametrize("code", ["ExpiredToken", "InvalidAccessKeyId", "SignatureDoesNotMatch"])
def test_credentials_that_are_refused_are_said_to_be_so(proxy, faulty_store, code):
    proxy.when(anything, "answer", status=403, code=code)
    with pytest.raises(RemoteStorageError, match=f"credentials refused: {code}") as raised:
        faulty_store.get("key")
    assert "AWS_ACCESS_KEY_ID" in raised.value.hint


def test_missing_credentials_name_where_they_could_come_from(endpoint, bucket, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    store = S3Store(bucket, "", settings_for(endpoint, max_concurrency=1))  # not the client of another test
    with pytest.raises(RemoteStorageError, match="no credentials") as raised:
        store.get("key")
    assert "AWS_PROFILE" in raised.value.hint


def test_a_profile_that_is_not_there_is_named(endpoint, bucket):
    store = S3Store(bucket, "", settings_for(endpoint, profile="nobody"))
    with pytest.raises(RemoteStorageError, match="nobody"):
        store.get("key")


def test_an_endpoint_that_is_no_url_is_a_usage_error(bucket):
    with pytest.raises(UsageError, match="localhost:9000") as raised:
        S3Store(bucket, "", settings_for("localhost:9000")).get("key")
    assert "https://" in raised.value.hint


def test_another_region_is_said_to_be_so(proxy, faulty_store):
    proxy.when(lambda method, _: method == "GET", "answer", status=301, code="PermanentRedirect")
    with pytest.raises(RemoteStorageError, match="another region"):
        faulty_store.get("key")


# --- damage


def test_a_damaged_download_is_found_out(proxy, faulty_store):
    faulty_store.put_if_absent("key", b"mine")
    proxy.when(lambda method, _: method == "GET", "body", times=1)
    with pytest.raises(CorruptDataError, match="CRC"):
        faulty_store.get("key")
    assert faulty_store.get("key") == b"mine"


@pytest.mark.parametrize("matches", [is_put, is_part])
def test_a_server_that_confirms_another_crc_is_not_believed(proxy, faulty_store, matches):
    proxy.when(lambda m, p: matches(m, p), "header", header=("x-amz-checksum-crc32c", "AAAAAA=="))
    with pytest.raises(RemoteStorageError, match="CRC"):
        put_large(faulty_store) if matches is is_part else faulty_store.put_if_absent("key", b"mine")
    assert list(faulty_store.unfinished_uploads()) == []


@pytest.mark.parametrize("checksums", list(Checksums))
def test_what_no_answer_confirms_is_not_proved(proxy, bucket, checksums):
    store = S3Store(bucket, "", settings_for(proxy.url, checksums=checksums))
    proxy.when(is_put, "header", header=("ETag", '"0123456789abcdef0123456789abcdef"'))
    assert store.put_if_absent("key", b"mine").proved == (checksums is Checksums.AWS)  # by its CRC


@pytest.mark.skipif(bool(os.environ.get("S3_ENDPOINT_FOR_TESTS")), reason="not the emulator")
def test_the_emulator_takes_wrong_checksums_so_it_proves_none(endpoint, bucket):
    # S3 answers 400 BadDigest. If this fails, moto has learnt it: tests of damage can then rely on the server.
    client_of(settings_for(endpoint)).put_object(Bucket=bucket, Key="key", Body=b"mine", ChecksumCRC32C="AAAAAA==")


# --- what goes over the wire


def test_our_crc_is_what_the_server_keeps(s3_store):
    put_large(s3_store)
    s3_store.put_if_absent("small", b"mine")
    head = client_of(s3_store.settings).head_object
    for key, crc in (("large", CRC), ("small", google_crc32c.value(b"mine"))):
        found = head(Bucket=s3_store.bucket, Key=s3_store.prefix + key, ChecksumMode="ENABLED")
        assert s3_store.head(key).crc32c == crc
        assert found.get("ChecksumType", "FULL_OBJECT") == "FULL_OBJECT"


def test_over_tls_the_body_is_not_hashed_a_second_time(bucket):
    store = S3Store(bucket, "", settings_for("https://127.0.0.1:1", total_attempts=1))
    seen: dict[str, str] = {}
    store.client.meta.events.register("before-send.s3", lambda request, **_: seen.update(request.headers))
    with pytest.raises(TransientError):
        store.put_if_absent("key", b"mine")
    sent = {name.lower(): value for name, value in seen.items()}
    assert sent["x-amz-content-sha256"] in {"UNSIGNED-PAYLOAD", b"UNSIGNED-PAYLOAD"}
    assert sent["x-amz-checksum-crc32c"]


def test_compat_sends_no_newer_checksum_and_one_delete_a_key(proxy, bucket, endpoint):
    seen: list[str] = []
    store = S3Store(bucket, "", settings_for(proxy.url, checksums=Checksums.COMPAT))
    store.client.meta.events.register(
        "before-send.s3", lambda request, **_: seen.extend(name.lower() for name in request.headers)
    )
    store.put_if_absent("small", b"mine", {"run-id": "r"})
    assert put_large(store).crc32c == CRC
    assert store.get("large") == LARGE
    assert store.head("small").crc32c is None
    assert store.delete(["small", "large"]) == ()
    assert not [name for name in seen if name.startswith(("x-amz-checksum", "x-amz-sdk-checksum"))]
    assert "content-md5" in seen
    assert "x-amz-meta-tiersnap-run-id" in seen, "the store names metadata"
    assert sum(request.startswith("DELETE") for request in proxy.requests) == 2


def test_many_keys_are_deleted_in_batches(s3_store, proxy, bucket):
    store = S3Store(bucket, "many/", settings_for(proxy.url))
    for number in range(3):
        store.put_if_absent(f"{number}", b"")
    proxy.requests.clear()
    assert store.delete(f"{number}" for number in range(1001)) == ()
    assert [request.split()[0] for request in proxy.requests] == ["POST", "DELETE"]
    assert list(store.list()) == []


def test_listings_go_on_after_the_first_page(s3_store, endpoint):
    store = S3Store(s3_store.bucket, "", settings_for(endpoint, max_concurrency=2))  # a client of its own
    store.client.meta.events.register(
        "before-parameter-build.s3.ListObjectsV2", lambda params, **_: params.update(MaxKeys=2)
    )
    for number in range(5):
        store.put_if_absent(f"{number}", b"")
    assert [found.key for found in store.list()] == ["0", "1", "2", "3", "4"]
