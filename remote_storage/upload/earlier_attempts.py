"""Delete what the attempts before left, as soon as another one holds their claim; leftovers does the rest."""

from __future__ import annotations

from dataclasses import replace

from tiersnap.remote_storage.metadata.segment_metadata import RemoteLogSegmentMetadata
from tiersnap.remote_storage.retire.leftovers import Swept
from tiersnap.remote_storage.stored.claim import Claim
from tiersnap.remote_storage.upload.tier_job import TierJob
from tiersnap.remote_storage.upload.uploader import delete_copy


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
            continue  # it deleted its objects; what appears of it later goes with the leftovers
        Swept(failures=delete_copy(job.store, job.layout, of_it)).check()
