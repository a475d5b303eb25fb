"""Options of the commands that only look at remote storage, and only if it is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from typing import TYPE_CHECKING

from tiersnap.jobs.old_options.once import once
from tiersnap.jobs.old_options.remote import layout_name_option, s3_options
from tiersnap.jobs.old_options.together import with_options
from tiersnap.remote_storage.stores.s3_settings import S3Settings
from tiersnap.snapshot.replay.beginnings import Beginnings

if TYPE_CHECKING:
    from tiersnap.remote_storage.inventory.host_inventory import HostInventory, ObserveOnce


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
        from tiersnap.remote_storage.inventory.host_inventory import HostInventory

        return HostInventory(self._look(), now, producer_expiration)

    def beginnings(self, now: int, producer_expiration: int | None) -> Beginnings:
        """Return what tells how logs begin that begin there; without --remote nothing does. It is asked for something
        first.

        Args:
            now, producer_expiration: see `inventory`.
        """
        if self.remote is None:
            return Beginnings()
        from tiersnap.snapshot.tasks.remote_start import beginning

        return Beginnings(partial(beginning, self._look(), now, producer_expiration))

    def _look(self) -> ObserveOnce:
        from tiersnap.remote_storage.inventory.host_inventory import ObserveOnce
        from tiersnap.remote_storage.layouts.open_layout import open_layout
        from tiersnap.remote_storage.stores.open_store import open_existing_store

        store = open_existing_store(self.remote or "", self.s3, writes=False)
        next(iter(store.list()), None)
        return ObserveOnce(store, open_layout(self.layout))


OF_BEGINNINGS = "Remote storage, for what came before the files of a log that begins there."


def remote_view_options(
    help_text: str, option: Callable[..., Callable[[Callable[..., object]], Callable[..., object]]] = once
) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """--remote, --layout and the S3 options, given to the command as `view: RemoteView`.

    Args:
        option: makes --remote; click.option where a setting may name it.
    """

    def decorate(command: Callable[..., object]) -> Callable[..., object]:
        @wraps(command)
        def with_view(*args: object, remote: str | None, layout: str, s3: S3Settings, **kwargs: object) -> object:
            return command(*args, view=RemoteView(remote, layout, s3), **kwargs)

        return with_options(with_view, (option("--remote", help=help_text), layout_name_option, s3_options))

    return decorate
