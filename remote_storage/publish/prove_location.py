"""The one way to the proof that `--remote` is where brokers read; `publish`, `unblock` and `mend` all take it.

See location_proof for what counts, broker_segments, broker_hosts and probe_topic for the looks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.metadata_topic import MetadataTopic
from tiersnap.remote_storage.layouts.open_layout import LAYOUTS
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation, in_each_layout, open_location
from tiersnap.remote_storage.publish.broker_evidence import brokers_here, settings_evidence
from tiersnap.remote_storage.publish.broker_segments import BrokerSegments
from tiersnap.remote_storage.publish.location_proof import Evidence, EvidenceKind, EvidenceOutcome, PlaceProof, decide
from tiersnap.remote_storage.publish.probe_topic import ProbeTopic
from tiersnap.remote_storage.publish.storage_manager import (
    CLASS_NAME,
    BrokerAnswer,
    ask_brokers,
    layout_of_classes,
)
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.host.running import BrokerSettings

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ProvePlace:
    """The looks at one store."""

    cluster: Cluster
    metadata_topic: MetadataTopic
    store: ObjectStore
    log_dirs: Sequence[str]  # of brokers, that were named; those that brokers name themselves are looked at as well
    probe_topic: str | None  # what the name of a probe topic begins with; None where none may be made
    is_unproven_allowed: bool  # nothing is refused but another layout than the brokers'
    apply: bool  # whether a topic may be made now
    talk: Callable[[str], None]  # told what is done, and what takes a while

    def location(self, given: str | None) -> RemoteLocation:
        """Return the store in the brokers' layout: by the class of their storage manager, else by what they uploaded.

        Args:
            given: name of a layout, or None.

        Raises:
            WrongPlaceError: brokers have another layout than `given`, or several.
            UsageError: nothing tells, or the class is not known, and none was given.
        """
        classes = {each.class_name for each in self._answers}
        if not any(classes):
            classes = {each.values.get(CLASS_NAME, "") for each in self._here if isinstance(each, BrokerSettings)}
        name = layout_of_classes(classes, given)
        if name is not None:
            return open_location(self.store, name)
        looked = self._segments.look(in_each_layout(self.store))
        if looked.found is None:
            raise UsageError(
                f"{self.store.uri}: layout unknown: {self.cluster.bootstrap_server} does not say its {CLASS_NAME}, and "
                "no segment that its brokers uploaded is there",
                hint=f"--layout, one of {', '.join(LAYOUTS)}; or the right to describe the configs of the cluster",
            )
        return looked.location

    def prove(self, location: RemoteLocation) -> PlaceProof:
        """Return the proof that brokers read this location.

        Raises:
            WrongPlaceError, UnprovenPlaceError: see location_proof.decide.
            TransientError: brokers or the store do not answer.
        """
        found = [self._segments.look([location]).evidence, settings_evidence(self._here, location)]
        is_planned = False
        if self.probe_topic is not None and self._is_probe_needed(found):
            probe = ProbeTopic(self.cluster, self.metadata_topic, location, self.probe_topic, self.talk)
            is_planned = not self.apply
            found += [] if is_planned else [probe.evidence()]
        for each in found:
            _log.debug("%s: %s: %s", each.kind, each.outcome, each.says)
        return decide(
            f"{location.store.uri} ({location.layout.name})",
            found,
            is_unproven_allowed=self.is_unproven_allowed,
            is_probe_planned=is_planned,
        )

    def _is_probe_needed(self, found: Sequence[Evidence]) -> bool:
        """Return whether a probe can change the outcome; it cannot if a broker's settings decide."""
        outcomes = {each.kind: each.outcome for each in found}
        if outcomes[EvidenceKind.SERVER_PROPERTIES] is EvidenceOutcome.CONTRADICTS:
            return False
        return EvidenceOutcome.HOLDS not in outcomes.values() or EvidenceOutcome.CONTRADICTS in outcomes.values()

    @cached_property
    def _segments(self) -> BrokerSegments:
        return BrokerSegments(self.cluster, self.metadata_topic, self.talk)

    @cached_property
    def _answers(self) -> list[BrokerAnswer]:
        return ask_brokers(self.cluster)

    @cached_property
    def _here(self) -> list[BrokerSettings | str]:
        log_dirs = [*self.log_dirs, *(path for each in self._answers for path in each.log_dirs)]
        return list(brokers_here(self.cluster.cluster_id(), log_dirs))
