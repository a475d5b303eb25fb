"""Topic ids by name, from the command line, the broker's disks and the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.log.selection import NamedLogDir


@dataclass(frozen=True)
class KnownTopicIds:
    """The topic ids from --topic-ids, from the cluster, and from `__cluster_metadata` on the broker's disks."""

    given: Mapping[str, str]  # the file of --topic-ids: ids by topic name
    cluster: Cluster | None  # None without a cluster
    log_dirs: Sequence[NamedLogDir]

    def find(self, topic: str) -> str | None:
        """Return the topic's id; None if no source has it.

        Raises:
            UsageError: two sources have different ids.
            TransientError: the cluster does not answer.
        """
        told = {"--topic-ids": self.given, "__cluster_metadata": self._logged, "--bootstrap-server": self._asked}
        found = {source: ids[topic] for source, ids in told.items() if topic in ids}
        if len(set(found.values())) > 1:
            says = ", ".join(f"{source} says {topic_id}" for source, topic_id in found.items())
            raise UsageError(
                f"{topic}: the sources disagree about the topic id: {says}",
                hint=f"kafka-topics.sh --bootstrap-server HOST:PORT --describe --topic {topic}",
            )
        return next(iter(found.values()), None)

    @cached_property
    def _logged(self) -> Mapping[str, str]:
        from tiersnap.snapshot.log.cluster_metadata import read_topic_ids

        found: dict[str, str] = {}
        for each in self.log_dirs:
            found |= read_topic_ids(each.log_dir.filesystem, each.log_dir.path)
        return found

    @cached_property
    def _asked(self) -> Mapping[str, str]:
        from tiersnap.snapshot.log.log_dir import split_folder_name

        if self.cluster is None:
            return {}
        names: set[str] = set()
        for each in self.log_dirs:
            for name, _ in filter(None, map(split_folder_name, each.log_dir.folders)):
                names.add(name)
        return {name: topic.topic_id for name, topic in self.cluster.topics(names).items()}
