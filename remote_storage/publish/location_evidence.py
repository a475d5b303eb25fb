"""Collect the evidence that brokers read a remote location, for `publish`, `unblock`, `mend` and `doctor`.

broker_evidence.py, broker_segments.py and read_back.py find evidence. From this evidence, location_proof.py
decides whether brokers read the location.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.metadata_topic import MetadataTopic
from tiersnap.remote_storage.layouts.open_layout import LAYOUTS
from tiersnap.remote_storage.layouts.remote_location import RemoteLocation, in_each_layout, open_location
from tiersnap.remote_storage.locks.read_back_record import ReadBackRecord, ReadBackStore
from tiersnap.remote_storage.publish.broker_configuration import configuration_digest
from tiersnap.remote_storage.publish.broker_evidence import (
    name_of,
    server_of,
    settings_evidence,
)
from tiersnap.remote_storage.publish.broker_segments import BrokerSegments
from tiersnap.remote_storage.publish.location_proof import (
    Evidence,
    EvidenceKind,
    EvidenceOutcome,
    LocationState,
    LocationVerdict,
    PlaceProof,
    decide,
)
from tiersnap.remote_storage.publish.read_back import ReadBack
from tiersnap.remote_storage.publish.read_back_topic import ReadBackTopic
from tiersnap.remote_storage.publish.storage_manager import CLASS_NAME, BrokerAnswer, ask_brokers, layout_of_classes
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.errors import CorruptDataError, UsageError
from tiersnap.snapshot.host.brokers import brokers_here, of_cluster
from tiersnap.snapshot.host.running_broker import BrokerSettings

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ProvePlace:
    """Collects evidence for the locations of one store."""

    cluster: Cluster
    metadata_topic: MetadataTopic
    store: ObjectStore
    # brokers on this host; a str is the reason why settings are unknown. Brokers that the cluster names are added
    brokers: Sequence[BrokerSettings | str]
    is_read_back_wanted: bool  # the user gave --prove
    is_unproven_allowed: bool  # the user gave --unproven
    apply: bool  # whether a read-back may write now
    talk: Callable[[str], None]  # reports finished and slow steps

    def location(self, given: str | None) -> RemoteLocation:
        """Return the remote location: the store in the layout that brokers use.

        The class of the brokers' storage manager determines the layout. If tiersnap does not know the class, the newest
        segment that brokers uploaded determines the layout.

        Args:
            given: the layout that the user named, or None.

        Raises:
            WrongPlaceError: brokers have another layout than `given`, or different layouts.
            UsageError: `given` is None, and neither the class nor a segment determines the layout.
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
                f"{self.store.uri}: the layout is unknown: {self.cluster.bootstrap_server} does not return "
                f"{CLASS_NAME}, and the location has no segment that a broker uploaded",
                hint=f"give --layout {' or '.join(LAYOUTS)}; or give this user the permission to describe the "
                "configs of the cluster",
            )
        return looked.location

    def verdict(self, location: RemoteLocation) -> LocationVerdict:
        """Return the verdict about a location from the evidence that exists. No read-back is made, nothing is written.

        Raises:
            TransientError: brokers or the store do not answer.
        """
        return decide(name_of(location), list(self._evidence(location)))

    def prove(self, location: RemoteLocation) -> PlaceProof:
        """Return the permission to write to this location. With `apply` and --prove, a record is read back if needed.

        Raises:
            WrongPlaceError, UnprovenPlaceError: see LocationVerdict.require.
            ReadBackHeldError: another run has a read-back at this location.
            TransientError: brokers or the store do not answer.
        """
        if self.apply:
            self._delete_left_over(location)
        found = self.verdict(location)
        if self.apply and self.is_read_back_wanted:
            found = self._with_read_back(found, location)
        return found.require(
            is_unproven_allowed=self.is_unproven_allowed,
            is_read_back_planned=self.is_read_back_wanted and not self.apply,
        )

    def _evidence(self, location: RemoteLocation) -> Iterator[Evidence]:
        looked = self._segments.look([location])
        found = (
            settings_evidence(self._here, location, self._answers),
            self._kept_read_back(),
            looked.evidence,
            looked.replica_mark(),
        )
        for each in found:
            if each is not None:
                _log.debug("%s: %s: %s", each.kind, each.outcome, each.sentence)
                yield each

    # Read-backs.

    def _with_read_back(self, found: LocationVerdict, location: RemoteLocation) -> LocationVerdict:
        """Make a new read-back if this is useful, and return the verdict that includes the evidence of the read-back.

        A read-back is useful if it can change the state. It is also useful if only the configuration of a broker on
        this host proves the location: the read-back stores a proof for later runs.
        """
        is_proven = found.state is LocationState.PROVEN
        is_proven_by_settings = is_proven and found.is_decided_by(EvidenceKind.SERVER_PROPERTIES)
        if not found.is_open and not is_proven_by_settings:
            return found
        others = []
        for each in found.evidence:
            if each.kind is not EvidenceKind.READ_BACK:
                others.append(each)
            elif each.is_proof:
                return found
        return decide(found.location, [self._read_back(location), *others])

    def _read_back(self, location: RemoteLocation) -> Evidence:
        records = self._records
        if records is None:
            said = f"{location.store.uri}: the directory does not exist"
            return Evidence(EvidenceKind.READ_BACK, EvidenceOutcome.SILENT, said)
        records.find()
        return self._job(location, records).evidence()

    def _job(self, location: RemoteLocation, records: ReadBackStore) -> ReadBack:
        return ReadBack(self.cluster, self.metadata_topic, location, records, self._brokers_digest, self.talk)

    def _kept_read_back(self) -> Evidence:
        kind, record = EvidenceKind.READ_BACK, self._found_record()
        if record is None or record.brokers is None:
            return Evidence(
                kind, EvidenceOutcome.SILENT, "brokers have not read a record back from the location (--prove)"
            )
        if record.brokers != self._brokers_digest:
            said = (
                "brokers once read a record back from the location, but have since restarted or changed their "
                "configuration"
            )
            return Evidence(kind, EvidenceOutcome.SILENT, said)
        said = (
            "brokers read a record back from the location, and have since neither restarted nor changed their "
            "configuration"
        )
        return Evidence(kind, EvidenceOutcome.PROVES, said)

    def _found_record(self) -> ReadBackRecord | None:
        try:
            return None if self._records is None else self._records.find()
        except CorruptDataError as error:
            if self.is_read_back_wanted:
                raise
            _log.debug("%s", error.message)
            return None

    def _delete_left_over(self, location: RemoteLocation) -> None:
        """Delete the topic and the objects of a killed read-back."""
        records = self._records
        if records is None:
            return
        record = self._found_record()
        if record is None or record.topic is None or records.is_held:
            return
        self.talk(f"{record.topic}: deleting the topic that a killed run left")
        if self._job(location, records).clean(ReadBackTopic(self.cluster, record.topic)):
            records.drop()

    @cached_property
    def _records(self) -> ReadBackStore | None:
        """Return the store of read-back records; None if the location is a directory that does not exist."""
        try:
            server = server_of(self.store)
        except OSError:
            return None
        return ReadBackStore(self.store, self.cluster.cluster_id(), server)

    @cached_property
    def _brokers_digest(self) -> str | None:
        return configuration_digest(self.cluster, self.metadata_topic, self._answers)

    @cached_property
    def _segments(self) -> BrokerSegments:
        return BrokerSegments(self.cluster, self.metadata_topic, self.talk)

    @cached_property
    def _answers(self) -> list[BrokerAnswer]:
        return ask_brokers(self.cluster)

    @cached_property
    def _here(self) -> list[BrokerSettings | str]:
        cluster_id = self.cluster.cluster_id()
        named = [path for each in self._answers for path in each.log_dirs]
        return [*of_cluster(cluster_id, self.brokers), *brokers_here(cluster_id, named)]
