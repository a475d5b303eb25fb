"""Where credentials may come from, as the server sees them: session tokens, profiles, roles; and CAs of one's own."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.s3.conftest import settings_for
from tests.s3.recording_server import ROLE_TOKEN, Recording, recording_server
from tiersnap.remote_storage.stores.s3_store import S3Store
from tiersnap.snapshot.errors import RemoteStorageError

pytestmark = pytest.mark.s3

PROFILES = """
[default]
aws_access_key_id = key-of-default
aws_secret_access_key = secret
[night]
aws_access_key_id = key-of-night
aws_secret_access_key = secret
aws_session_token = token-of-night
"""


@pytest.fixture
def server() -> Iterator[Recording]:
    with recording_server() as running:
        yield running


@pytest.fixture(autouse=True)
def nothing_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)


def who_asked(server: Recording, **settings: object) -> tuple[str, str]:
    """Access key id and session token of a listing."""
    assert list(S3Store("bucket", "", settings_for(server.url, **settings)).list()) == []
    (asked,) = server.asked_by
    return asked


def test_a_session_token_in_the_environment_reaches_the_server(server, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "temporary")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token-of-an-hour")
    assert who_asked(server) == ("temporary", "token-of-an-hour")


@pytest.mark.parametrize("by", ["AWS_PROFILE", "settings"])
def test_a_profile_of_the_credentials_file_is_used(server, monkeypatch, tmp_path, by):
    file = tmp_path / "credentials"
    file.write_text(PROFILES)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    if by == "AWS_PROFILE":
        monkeypatch.setenv("AWS_PROFILE", "night")
    assert who_asked(server, **({"profile": "night"} if by == "settings" else {})) == ("key-of-night", "token-of-night")


def test_a_profile_that_is_not_there_is_an_error_with_what_to_do(server, monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "night")
    with pytest.raises(RemoteStorageError, match="night") as raised:
        who_asked(server)
    assert "AWS_PROFILE" in raised.value.hint


def test_the_role_of_an_instance_is_asked_of_its_metadata_service(server, monkeypatch):
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "false")
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url + "/")
    assert who_asked(server) == ("key-of-the-instance", ROLE_TOKEN)
    assert server.paths[0] == "/latest/api/token", "IMDSv2"


def test_the_role_of_a_container_or_pod_is_asked_of_its_agent(server, monkeypatch):
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{server.url}/v1/credentials")
    assert who_asked(server) == ("key-of-the-container", ROLE_TOKEN)


def test_without_any_credentials_it_is_said_where_they_are_looked_for(server):
    with pytest.raises(RemoteStorageError, match="no credentials") as raised:
        who_asked(server)
    assert "AWS_ACCESS_KEY_ID" in raised.value.hint


def test_a_server_with_a_certificate_of_its_own_is_trusted_by_ca_bundle_alone(monkeypatch, tmp_path):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    certificate = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with recording_server(context) as server:
        with pytest.raises(RemoteStorageError, match="the TLS connection failed") as raised:
            who_asked(server, total_attempts=1)
        assert "AWS_CA_BUNDLE" in raised.value.hint
        assert server.asked_by == [], "nothing was said to a server that nobody vouches for"
        monkeypatch.setenv("AWS_CA_BUNDLE", str(certificate))
        assert who_asked(server, total_attempts=2) == ("key", "")


def self_signed(folder: Path) -> Path:
    """Certificate and key for 127.0.0.1, in one PEM file."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "loopback")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = folder / "server.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    pem.write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + private)
    return pem
