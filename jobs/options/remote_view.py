"""Options of the commands that only look at remote storage, and only if it is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING

from tiersnap.jobs.options.once import once
from tiersnap.jobs.options.remote import layout_name_option, s3_options
from tiersnap.jobs.options.together import with_options
from tiersnap.remote_storage.stores.s3_settings import S3Settings

if TYPE_CHECKING:
    from tiersnap.remote_storage.presence.host_inventory import HostInventory


@dataclass(frozen=True)
class RemoteView:
    """Where to look.

    Attributes:
        remote: as the user wrote it; None if nothing is to be asked.
        layout: its name.
    """

    remote: str | None
    layout: str
    s3: S3Settings

    def inventory(self, now: int, producer_expiration: int | None) -> HostInventory | None:
        """Return what tells what is tiered; None without --remote. It is asked for something first.

        Args:
            now: epoch ms.
            producer_expiration: ms, the broker's producer.id.expiration.ms; None if it never drops producers.
        """
        if self.remote is None:
            return None
        # Most calls look at no remote storage, and need not wait for its modules.
        from tiersnap.remote_storage.layouts.open_layout import open_layout
        from tiersnap.remote_storage.presence.host_inventory import HostInventory, ObserveOnce
        from tiersnap.remote_storage.stores.open_store import open_existing_store
        from tiersnap.snapshot.tasks.remote_start import believing

        store = open_existing_store(self.remote, self.s3, writes=False)
        next(iter(store.list()), None)
        return HostInventory(ObserveOnce(store, open_layout(self.layout)), believing(now, producer_expiration))


def remote_view_options(help_text: str) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """--remote, --layout and the S3 options, given to the command as `view: RemoteView`."""

    def decorate(command: Callable[..., object]) -> Callable[..., object]:
        @wraps(command)
        def with_view(*args: object, remote: str | None, layout: str, s3: S3Settings, **kwargs: object) -> object:
            return command(*args, view=RemoteView(remote, layout, s3), **kwargs)

        return with_options(with_view, (once("--remote", help=help_text), layout_name_option, s3_options))

    return decorate
