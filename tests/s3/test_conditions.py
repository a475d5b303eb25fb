"""Servers that overwrite what they were asked not to are found out before anything is claimed there."""

import os

import pytest

from tests.reference.command import assert_said, tiersnap
from tests.reference.planned import write_log
from tests.s3.conftest import settings_for
from tests.s3.test_s3_faults import anything, is_put
from tiersnap.remote_storage.errors import ConditionsIgnoredError
from tiersnap.remote_storage.stores.probe import check_conditions
from tiersnap.remote_storage.stores.s3_settings import Checksums
from tiersnap.remote_storage.stores.s3_store import S3Store
from tiersnap.snapshot.errors import ExitCode, RemoteStorageError, TransientError

pytestmark = pytest.mark.s3


def test_a_store_that_keeps_its_conditions_passes_and_nothing_is_left(store):
    check_conditions(store)
    assert list(store.list()) == []
    assert list(store.unfinished_uploads()) == []


def without(proxy, bucket, header: str, checksums: Checksums) -> S3Store:
    """A server that does not know a header: the proxy takes it out, and the emulator does not check signatures."""
    proxy.when(is_put, "strip", code=header)
    return S3Store(bucket, "some/prefix/", settings_for(proxy.url, checksums=checksums))


@pytest.mark.skipif(bool(os.environ.get("S3_ENDPOINT_FOR_TESTS")), reason="it checks signatures")
@pytest.mark.parametrize("checksums", list(Checksums))
@pytest.mark.parametrize("header", ["if-none-match", "if-match"])
def test_a_server_that_ignores_a_condition_is_refused_by_name(proxy, bucket, header, checksums, s3_store):
    store = without(proxy, bucket, header, checksums)
    with pytest.raises(ConditionsIgnoredError) as raised:
        check_conditions(store)
    assert header in raised.value.message.lower()
    assert f"s3://{bucket}/some/prefix/" in raised.value.message
    assert (raised.value.exit_code, "conditional writes" in raised.value.hint) == (ExitCode.USAGE, True)
    assert list(s3_store.list()) == []


@pytest.mark.skipif(bool(os.environ.get("S3_ENDPOINT_FOR_TESTS")), reason="it checks signatures")
@pytest.mark.parametrize(("command", "place"), [("tier", "--remote"), ("collect", "--to")])
def test_nothing_is_written_to_a_server_that_ignores_a_condition(proxy, bucket, tmp_path, s3_store, command, place):
    write_log(tmp_path / "logs")
    proxy.when(is_put, "strip", code="if-match")
    there = (place, f"s3://{bucket}/some/prefix", "--endpoint-url", proxy.url, "--path-style")
    ran = tiersnap(command, tmp_path / "logs", *there, "--apply")
    assert_said(ran, ExitCode.USAGE, "If-Match", "conditional writes")
    assert list(s3_store.list()) == []


@pytest.mark.parametrize(("status", "code"), [(501, "NotImplemented"), (400, "InvalidArgument")])
def test_a_server_that_refuses_the_header_itself_is_named_as_well(proxy, faulty_store, status, code):
    proxy.when(is_put, "answer", status=status, code=code)
    with pytest.raises(ConditionsIgnoredError, match=code):
        check_conditions(faulty_store)


@pytest.mark.parametrize(
    ("status", "code", "error", "said"),
    [
        (403, "AccessDenied", RemoteStorageError, "the server denied"),
        (503, "SlowDown", TransientError, "SlowDown"),
        (400, "InvalidBucketName", RemoteStorageError, "a name that the server does not accept"),
        (400, "ExpiredToken", RemoteStorageError, "credentials refused: ExpiredToken"),
    ],
)
def test_another_trouble_is_not_taken_for_an_answer(proxy, faulty_store, status, code, error, said):
    proxy.when(anything, "answer", status=status, code=code)
    with pytest.raises(error, match=said) as raised:
        check_conditions(faulty_store)
    assert not isinstance(raised.value, ConditionsIgnoredError)


def test_seven_requests_are_what_it_costs(proxy, faulty_store):
    check_conditions(faulty_store)
    assert [request.split()[0] for request in proxy.requests] == ["PUT", "PUT", "HEAD", "PUT", "HEAD", "PUT", "DELETE"]
    assert all("/some/prefix/claims/probe-" in request for request in proxy.requests)
