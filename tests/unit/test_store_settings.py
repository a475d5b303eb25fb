"""Settings of stores by scheme: the options that give them, and those that a broker's settings fill in."""

from __future__ import annotations

import pytest

from tiersnap.remote_storage.stores.s3_settings import Checksums, S3Settings
from tiersnap.remote_storage.stores.store_settings import StoreSettings, location_words

pytestmark = pytest.mark.unit

MINIO = StoreSettings(S3Settings(endpoint_url="http://minio:9000", region="eu-1", path_style=True))


def test_words_of_settings_are_the_options_that_give_them() -> None:
    reached = ["--endpoint-url", "http://minio:9000", "--region", "eu-1", "--path-style"]
    assert MINIO.words == reached
    assert StoreSettings().words == []
    assert location_words("s3://t", "local-tiered-storage", reached)[:3] == [
        "s3://t",
        "--layout",
        "local-tiered-storage",
    ]


def test_settings_that_are_not_set_are_taken_from_the_others() -> None:
    given = StoreSettings(S3Settings(endpoint_url="http://localhost:1", checksums=Checksums.COMPAT))
    expected = S3Settings(endpoint_url="http://localhost:1", region="eu-1", path_style=True, checksums=Checksums.COMPAT)
    assert given.or_else(MINIO).s3 == expected
    assert MINIO.or_else(given) == MINIO
