"""What `doctor` and `mend` say of remote segments that brokers know and whose objects are missing."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import click

from tiersnap.jobs.again import given_options
from tiersnap.jobs.old_options.place_proof import Compared
from tiersnap.remote_storage.cluster.location_proof import NAME_THE_PLACE
from tiersnap.remote_storage.cluster.missing_objects import MissingSegment
from tiersnap.remote_storage.errors import WrongPlaceError
from tiersnap.snapshot.units import count_of

MOST_TOLD = 5
_OF_MEND = (
    *("bootstrap-server", "command-config", "remote", "layout"),
    *("endpoint-url", "region", "path-style", "checksums"),
)


def row_of(missing: MissingSegment) -> dict[str, object]:
    """Return one missing segment as data; `next_base_offset` is exclusive."""
    metadata = missing.metadata
    return {
        "topic": metadata.id.topic,
        "topic_id": metadata.id.topic_id,
        "partition": metadata.id.partition,
        "segment_id": metadata.id.segment_id,
        "base_offset": metadata.start_offset,
        "next_base_offset": metadata.end_offset + 1,
        "bytes": metadata.segment_size,
        "is_ours": missing.is_ours,
        "lacking": list(missing.lacking),
    }


def as_records(compared: Compared) -> dict[str, object]:
    """Return all of it as data."""
    missing = compared.missing
    rows = [row_of(each) for each in missing.segments]
    return {"known": missing.known, "sentence": missing.sentence, "place": compared.place, "missing": rows}


def lines_of(compared: Compared) -> Iterator[str]:
    """Yield what a person should know: the sentences, and the first segments."""
    missing = compared.missing
    yield missing.sentence
    for each in missing.segments[:MOST_TOLD]:
        at = each.metadata
        whose = "published by tiersnap" if each.is_ours else "uploaded by a broker"
        yield (
            f"{at.id.topic_id_partition} offsets {at.start_offset} to {at.end_offset}: segment {at.id.segment_id}, "
            f"{whose}, lacks {' '.join(each.lacking)}"
        )
    if len(missing.segments) > MOST_TOLD:
        yield f"… and {count_of(len(missing.segments) - MOST_TOLD, 'segment')} more: --output json has all of them"
    yield compared.place


def next_step(compared: Compared) -> Iterator[str]:
    """Yield the line that puts back what is missing, with the options that the running command was given."""
    if not compared.missing.segments:
        return
    if isinstance(compared.doubt, WrongPlaceError):
        yield f"brokers do not read here: {NAME_THE_PLACE}"
        return
    given = given_options(click.get_current_context())
    words = [word for name in _OF_MEND for word in given.get(name, ())]
    if compared.missing.elsewhere is None:
        yield f"{shlex.join(['tiersnap', 'mend', *words])} --from URI   with the place to which they were uploaded"
        return
    (remote,) = given["remote"][1:]
    yield shlex.join(["tiersnap", "mend", *words, "--from", remote, "--from-layout", compared.missing.elsewhere])
