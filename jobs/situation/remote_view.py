"""The remote location of a command that reads remote storage and writes nothing to it."""

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
    """The remote location that a command reads."""

    remote: str | None  # URI or path as the user wrote it; None for no remote location
    layout: str  # name of the layout
    stores: StoreSettings

    @property
    def words(self) -> list[str]:
        """Return the value of --remote and the options of the layout and the store, as words of a command line."""
        return location_words(self.remote or "", self.layout, self.stores.words)

    def inventory(
        self, expiry: BrokerExpiry, records: Records | None = None, ask_log_start: AskLogStart | None = None
    ) -> Inventory | None:
        """Return the inventory of remote segments; None if there is neither a remote location nor records.

        If there is a remote location, one request first checks that the store answers. The inventory then lists the
        store. Without a remote location, the inventory has the segments that the records name.

        Args:
            expiry: the broker's expiration of producers.
            records: records of `__remote_log_metadata`; None if none were read.
            ask_log_start: see the class Observe.
        """
        if self.remote is None and records is None:
            return None
        if self.remote is None:
            from tiersnap.snapshot.host.recorded_inventory import RecordedInventory

            return RecordedInventory(records or {})
        from tiersnap.remote_storage.remote_log.host_inventory import HostInventory

        return HostInventory(self._look(records, ask_log_start), expiry)

    def beginnings(self, expiry: BrokerExpiry) -> Beginnings:
        """Return a Beginnings, which finds the log start and the producer state of logs that begin in remote storage.

        If there is a location, one request first checks that the store answers. Without a location, the Beginnings
        sends no request.
        """
        from tiersnap.snapshot.replay.replay_start import Beginnings, beginning

        if self.remote is None:
            return Beginnings()
        return Beginnings(partial(beginning, self._look(), expiry))

    def location(self) -> RemoteLocation:
        """Return the remote location, opened for reading. The errors are those of `open_existing_store`."""
        from tiersnap.remote_storage.layouts.remote_location import open_location

        return open_location(self.open_store(), self.layout)

    def open_store(self, *, writes: bool = False) -> ObjectStore:
        """Return the object store. The errors are those of `open_existing_store`.

        Args:
            writes: open the store for reading and writing; by default only for reading.
        """
        from tiersnap.remote_storage.stores.open_store import open_existing_store

        return open_existing_store(self.remote or "", self.stores, writes=writes)

    def ask(self) -> RemoteLocation:
        """Send one request to check that the store answers, then return the remote location."""
        location = self.location()
        next(iter(location.store.list()), None)
        return location

    def _look(self, records: Records | None = None, ask_log_start: AskLogStart | None = None) -> ObserveOnce:
        from tiersnap.remote_storage.remote_log.host_inventory import ObserveOnce
        from tiersnap.remote_storage.remote_log.listing_ahead import ListingAhead

        return ObserveOnce(self.ask(), records=records, ask_log_start=ask_log_start, ahead=ListingAhead())
