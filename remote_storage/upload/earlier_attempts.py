"""What attempts left that are over, deleted: nothing but what a claim names ever is."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace

from tiersnap.remote_storage.claims import Claim
from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata
from tiersnap.remote_storage.presence.partition import Presence
from tiersnap.remote_storage.stores.object_store import DeleteFailure
from tiersnap.remote_storage.upload.tier_job import TierJob
from tiersnap.remote_storage.upload.uploader import delete_copy
from tiersnap.snapshot.errors import TransientError

_log = logging.getLogger(__name__)


def delete_superseded(job: TierJob, presence: Presence) -> None:
    """Delete what attempts left that another one has finished without.

    Raises:
        TransientError: something could not be deleted.
    """
    for left in presence.superseded:
        _check_deleted(job.store.delete([key]) for key in left.keys)
        _log.info("deleted what an earlier attempt left of %s: %d objects", job.partition, len(left.keys))


def delete_earlier(job: TierJob, metadata: RemoteLogSegmentMetadata, claimed: Claim) -> None:
    """Delete what the earlier attempts of a claim left; it names them, so it is ours beyond doubt.

    Args:
        metadata: of the attempt that holds the claim.

    Raises:
        TransientError: something could not be deleted.
    """
    for earlier in claimed.earlier:
        of_it = replace(metadata, id=replace(metadata.id, segment_id=earlier.segment_id))
        for upload in job.store.unfinished_uploads(job.layout.stem(of_it)):
            if earlier.segment_id in upload.key:
                job.store.abort_upload(upload)
        if earlier.ended:
            continue  # it said that it deleted its objects
        _check_deleted([delete_copy(job.store, job.layout, of_it)])


def _check_deleted(results: Iterable[tuple[DeleteFailure, ...]]) -> None:
    failures = [failure for result in results for failure in result]
    if failures:
        raise TransientError(
            f"what an earlier attempt left could not be deleted: {failures[0].key}: {failures[0].reason}",
            hint="allow s3:DeleteObject below the prefix, then run the same command again",
        )
