"""The remote location that a command looks at, without writing there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tiersnap.remote_storage.stores.store_settings import StoreSettings, location_words

if TYPE_CHECKING:
    from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
    from tiersnap.remote_storage.remote_log.host_inventory import ObserveOnce
    from tiersnap.remote_storage.remote_log.log_head import AskLogStart
    from tiersnap.remote_storage.stores.object_store import ObjectStore
    from tiersnap.snapshot.host.scanned import Inventory
    from tiersnap.snapshot.replay.expiry import BrokerExpiry
    from tiersnap.snapshot.replay.remote_records import Records
    from tiersnap.snapshot.replay.replay_start import Beginnings


@dataclass(frozen=True)
class RemoteView:
    """The remote location to look at, if any; `remote` is as the user wrote it, `layout` a name."""

    remote: str | None
    layout: str
    stores: StoreSettings

    @property
    def words(self) -> list[str]:
        """Return the value of --remote and the options by which the location is reached, for a command line."""
        return location_words(self.remote or "", self.layout, self.stores.words)

    def inventory(
        self, expiry: BrokerExpiry, records: Records | None = None, ask_log_start: AskLogStart | None = None
    ) -> Inventory | None:
        """Return the remote inventory of partitions: of the store with --remote, else of the records, else None.

        One request first checks that the store answers. See Observe for `ask_log_start`.
        """
        if self.remote is None and records is None:
            return None
        if self.remote is None:
            from tiersnap.snapshot.host.recorded_inventory import RecordedInventory

            return RecordedInventory(records or {})
        from tiersnap.remote_storage.remote_log.host_inventory import HostInventory

        return HostInventory(self._look(records, ask_log_start), expiry)

    def beginnings(self, expiry: BrokerExpiry) -> Beginnings:
        """Return a Beginnings that reads the start of logs from remote storage; without --remote it reads nothing.

        See `inventory`.
        """
        from tiersnap.snapshot.replay.replay_start import Beginnings, beginning

        if self.remote is None:
            return Beginnings()
        return Beginnings(partial(beginning, self._look(), expiry))

    def location(self) -> RemoteLocation:
        """Return the remote location, for reading; raise the errors of `open_existing_store`."""
        from tiersnap.remote_storage.layouts.remote_location import open_location

        return open_location(self.open_store(), self.layout)

    def open_store(self, *, writes: bool = False) -> ObjectStore:
        """Return the store, for reading unless `writes`; raise the errors of `open_existing_store`."""
        from tiersnap.remote_storage.stores.open_store import open_existing_store

        return open_existing_store(self.remote or "", self.stores, writes=writes)

    def ask(self) -> RemoteLocation:
        """Return the remote location after it has answered one request."""
        location = self.location()
        next(iter(location.store.list()), None)
        return location

    def _look(self, records: Records | None = None, ask_log_start: AskLogStart | None = None) -> ObserveOnce:
        from tiersnap.remote_storage.remote_log.host_inventory import ObserveOnce

        return ObserveOnce(self.ask(), records=records, ask_log_start=ask_log_start)
