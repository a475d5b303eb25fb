"""Options of the commands that tier from the log directories of one host."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path

import click

from tiersnap.jobs.old_options import common as params
from tiersnap.jobs.old_options.remote import allow_plaintext_option, rate_option, s3_options
from tiersnap.jobs.old_options.together import Command, Option, with_options
from tiersnap.jobs.pipeline.settings import new_run_id
from tiersnap.jobs.pipeline.topic_ids import read_topic_ids
from tiersnap.remote_storage.layouts.layout import Layout
from tiersnap.remote_storage.layouts.open_layout import open_layout
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.open_store import open_store
from tiersnap.remote_storage.stores.paced_store import paced
from tiersnap.remote_storage.stores.s3_settings import S3Settings
from tiersnap.remote_storage.upload.tier_host import HostTier
from tiersnap.remote_storage.upload.tier_job import Tierer
from tiersnap.snapshot.tasks.carry_options import CarryOptions


@dataclass(frozen=True)
class HostRequest:
    """What was asked of one host.

    Attributes:
        remote: as the user wrote it.
        topic: a regular expression for whole topic names; None for all.
        layout: by name, as it was given; None where it was not, and brokers are asked.
        host_in: the tiering in a layout.
        run_id: of this run, whose attempts it names.
    """

    remote: str
    store: ObjectStore
    topic: re.Pattern[str] | None
    layout: str | None
    host_in: Callable[[Layout], HostTier]
    run_id: str
    apply: bool

    def host(self, *, every_boundary: bool) -> HostTier:
        """Return the tiering in the layout that was given, for a command whose option has a default."""
        assert self.layout is not None
        host = self.host_in(open_layout(self.layout))
        return replace(host, options=replace(host.options, every_boundary=every_boundary))


def host_options(layout_option: Option) -> Option:
    """Where to tier to and how, given to the command as `request: HostRequest`; `layout_option` gives a name.

    With --apply remote storage is asked for something first: a bucket that is not there or refuses is better known
    before the work than after it.
    """

    def with_host(command: Command) -> Command:
        @wraps(command)
        def with_request(
            *args: object,
            remote: str,
            layout: str | None,
            expiration: int | None,
            as_of: int | None,
            producer_expiration: int | None,
            now: int,
            replace: bool,
            topic_ids: Path | None,
            topic: re.Pattern[str] | None,
            check_crc: bool,
            s3: S3Settings,
            rate: int | None,
            allow_plaintext: bool,
            apply: bool,
            **kwargs: object,
        ) -> object:
            params.expiry(expiration, as_of, now, producer_expiration)
            store = paced(open_store(remote, s3, writes=apply), rate)
            if apply:
                next(iter(store.list()), None)
            options = CarryOptions(expiration, as_of, producer_expiration, replace=replace)
            ids = read_topic_ids(topic_ids) if topic_ids else {}
            tierer = Tierer(new_run_id(), now)

            def host_in(layout: Layout) -> HostTier:
                return HostTier(
                    store,
                    layout,
                    options,
                    tierer,
                    topic_ids=ids,
                    check_crc=check_crc,
                    allow_plaintext=allow_plaintext,
                    apply=apply,
                )

            request = HostRequest(remote, store, topic, layout, host_in, tierer.run_id, apply)
            return command(*args, request=request, **kwargs)

        return with_options(with_request, (_REMOTE, layout_option, *_OPTIONS))

    return with_host


_REMOTE: Option = click.option("--remote", required=True, help="Remote storage: s3://bucket/prefix, or a directory.")
_OPTIONS: tuple[Option, ...] = (
    params.expiration_option,
    params.as_of_option,
    params.producer_expiration_option,
    params.now_option,
    click.option(
        "--replace", is_flag=True, help="Tier with computed snapshots where the broker's are CORRUPT or SUSPECT."
    ),
    click.option(
        "--topic-ids", type=click.Path(dir_okay=False, path_type=Path), help="Lines `topic id` for old topics."
    ),
    params.topic_option,
    params.crc_option,
    s3_options,
    rate_option("Send no more bytes a second to remote storage"),
    allow_plaintext_option,
    click.option("--apply", is_flag=True, help="Write to remote storage; without it the plan is shown."),
)
