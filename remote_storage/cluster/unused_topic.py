"""A topic of a remote location that the cluster does not have; see unused_topics."""

from __future__ import annotations

from dataclasses import dataclass

from tiersnap.snapshot.units import count_of


@dataclass(frozen=True, slots=True)
class UnusedTopic:
    """A topic of a remote location whose id the cluster does not have."""

    topic: str
    topic_id: str
    folders: list[str]  # URIs, in order: one, or one for each partition as LocalTieredStorage lays them

    def says(self) -> str:
        """Return a sentence for the owner of the location."""
        others = f" and {count_of(len(self.folders) - 1, 'folder')} more" if self.folders[1:] else ""
        return (
            f"{self.folders[0]}{others}: no topic of this cluster has the id {self.topic_id}. Unless it was deleted "
            f"a moment ago, brokers leave it there; the bucket's owner may delete it if no other cluster uses it"
        )
