"""The remote location of a command that only reads."""

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
        """Return the inventory of remote segments.

        With a remote location it lists the store, after one request that checks that the store answers. Without one it
        uses the records only.

        Args:
            expiry: the broker's expiration of producers.
            records: records of `__remote_log_metadata`; None if none were read.
            ask_log_start: see Observe.

        Returns:
            None without a remote location and without records.
        """
        if self.remote is None and records is None:
            return None
        if self.remote is None:
            from tiersnap.snapshot.host.recorded_inventory import RecordedInventory

            return RecordedInventory(records or {})
        from tiersnap.remote_storage.remote_log.host_inventory import HostInventory

        return HostInventory(self._look(records, ask_log_start), expiry)

    def beginnings(self, expiry: BrokerExpiry) -> Beginnings:
        """Return a Beginnings that finds the start of logs in remote storage; without --remote it finds nothing.

        One request first checks that the store answers.
        """
        from tiersnap.snapshot.replay.replay_start import Beginnings, beginning

        if self.remote is None:
            return Beginnings()
        return Beginnings(partial(beginning, self._look(), expiry))

    def location(self) -> RemoteLocation:
        """Return the remote location, opened for reading; raise the errors of `open_existing_store`."""
        from tiersnap.remote_storage.layouts.remote_location import open_location

        return open_location(self.open_store(), self.layout)

    def open_store(self, *, writes: bool = False) -> ObjectStore:
        """Return the object store; raise the errors of `open_existing_store`.

        Args:
            writes: open it for writing too.
        """
        from tiersnap.remote_storage.stores.open_store import open_existing_store

        return open_existing_store(self.remote or "", self.stores, writes=writes)

    def ask(self) -> RemoteLocation:
        """Return the remote location after one request that checks that the store answers."""
        location = self.location()
        next(iter(location.store.list()), None)
        return location

    def _look(self, records: Records | None = None, ask_log_start: AskLogStart | None = None) -> ObserveOnce:
        from tiersnap.remote_storage.remote_log.host_inventory import ObserveOnce

        return ObserveOnce(self.ask(), records=records, ask_log_start=ask_log_start)
