"""One writer at a time in a warehouse on S3, by a server's own conditions and clock."""

from __future__ import annotations

import time

import pytest

from tests.s3.conftest import settings_for
from tiersnap.jobs.pipeline.one_writer import LEASE_KEY, only_run
from tiersnap.remote_storage.errors import LeaseLostError
from tiersnap.remote_storage.locks.lease import LeaseHolder
from tiersnap.remote_storage.stores.open_store import open_store
from tiersnap.remote_storage.stores.store_settings import StoreSettings
from tiersnap.snapshot.errors import TransientError

pytestmark = pytest.mark.s3


def test_a_second_run_on_the_warehouse_waits_until_the_first_is_over(endpoint: str, bucket: str) -> None:
    warehouse, stores = f"s3://{bucket}/warehouse", StoreSettings(settings_for(endpoint))
    with only_run(warehouse, "first", stores, renewed_each_s=0.05) as check:
        store = open_store(warehouse, stores)
        while LeaseHolder.decode(store.get(LEASE_KEY), name=LEASE_KEY).renewals < 2:
            time.sleep(0.05)
            check()
        with pytest.raises(TransientError, match="run first on"), only_run(warehouse, "second", stores):
            pass
        check()
    with only_run(warehouse, "third", stores) as check:
        check()


def test_a_run_whose_lease_was_taken_over_may_not_commit(endpoint: str, bucket: str) -> None:
    warehouse, stores = f"s3://{bucket}/warehouse", StoreSettings(settings_for(endpoint))
    with only_run(warehouse, "first", stores, renewed_each_s=0.05) as check:
        open_store(warehouse, stores).delete([LEASE_KEY])
        with only_run(warehouse, "second", stores):
            time.sleep(0.2)
            with pytest.raises(LeaseLostError):
                check()
