"""A topic that has segments in a remote location, but does not exist in the cluster. See `unused_topics`."""

from __future__ import annotations

from dataclasses import dataclass

from tiersnap.snapshot.units import count_of


@dataclass(frozen=True, slots=True)
class UnusedTopic:
    """A topic that has segments in a remote location. No topic of the cluster has its topic id."""

    topic: str
    topic_id: str
    folders: list[str]  # URIs, ascending: one, or one per partition in the layout of LocalTieredStorage

    def says(self) -> str:
        """Return a sentence for the owner of the remote location."""
        others = ""
        if self.folders[1:]:
            others = f" and {count_of(len(self.folders) - 1, 'folder')} more"
        return (
            f"{self.folders[0]}{others}: no topic of this cluster has the topic id {self.topic_id}. Brokers delete "
            "such a folder only if the topic was deleted just now. Otherwise the owner of the bucket may delete the "
            "folder, if no other cluster uses the folder"
        )
