"""`tiersnap restore` while retention deletes remote segments."""

from __future__ import annotations

import pytest

from tests.reference.restoring import TOPIC, new_disk, tiered_store
from tiersnap.remote_storage.restore.find_topic import find_topic
from tiersnap.remote_storage.restore.request import RestoreRequest
from tiersnap.remote_storage.restore.restore import carry_out
from tiersnap.remote_storage.restore.restore_plan import plan_topic
from tiersnap.remote_storage.restore.target import open_target
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.snapshot.errors import TransientError
from tiersnap.snapshot.replay.expiry import BrokerExpiry

pytestmark = pytest.mark.unit


class Retention(DirectoryStore):
    """Retention deletes the first segment between the plan and its fetch."""

    def get_range(self, key: str, start: int, length: int) -> bytes:
        if key.endswith(".log"):
            self.delete([key])
        return super().get_range(key, start, length)


def test_restore_ends_as_transient_when_a_segment_goes_after_the_plan(tmp_path):
    store, disk = Retention(tiered_store(tmp_path / "remote").root), new_disk(tmp_path / "disk")
    asked = RestoreRequest(TOPIC, (), None, None, None, None, None, None, None, (), True, BrokerExpiry(0, None))
    target = open_target(disk, None)
    plans = plan_topic(store, target, find_topic(store, asked), asked, None)
    failed = carry_out(store, target, plans, begin=lambda _: None, talk=lambda _: None)
    assert failed.done == ()
    assert isinstance(failed.failure, TransientError)
    assert "the object does not exist" in failed.failure.message
    assert "run restore again" in failed.failure.hint
