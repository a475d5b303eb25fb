"""The known facts about a host, its cluster and its remote location, and the source of each.

    log directories   the command line; else log.dirs of the broker
    broker            --server-properties; else the process that holds `.lock` of the log directories; without log
                      directories the only broker that runs on this host
    remote location   the command line; else the broker's settings. If the command line has only the URI, the broker's
                      settings add the layout. If the broker has the same URI, its settings add the endpoint too
    cluster           the command line; else a listener of the broker without TLS and SASL

An unknown fact has the value None. `Situation.verdict` compares a remote location with the settings of the brokers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from tiersnap.jobs.situation.remote_view import RemoteView
from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.stores.store_settings import DEFAULT_LAYOUT, StoreSettings
from tiersnap.snapshot.errors import MissingExtraError, TiersnapError, UsageError

if TYPE_CHECKING:
    from tiersnap.remote_storage.layouts.remote_location import RemoteLocation
    from tiersnap.remote_storage.publish.location_proof import LocationVerdict
    from tiersnap.remote_storage.publish.storage_manager import NamedLocation
    from tiersnap.remote_storage.stores.object_store import ObjectStore
    from tiersnap.snapshot.formats.meta_properties import MetaProperties
    from tiersnap.snapshot.host.running_broker import BrokerSettings

COMMAND_LINE = "the command line"
NOT_ASKED = "not asked"
SERVER_PROPERTIES = "--server-properties"
_OPTION_OF = {
    "log directories": "give the directories in log.dirs, or for a stopped broker --server-properties FILE",
    "remote location": "give --remote s3://bucket/prefix, or for a trial --remote DIRECTORY",
    "cluster": "give --bootstrap-server HOST:PORT, and --command-config FILE if the listeners use TLS or SASL",
}
# /proc shows the settings of a process only to its own user and to root.
_NO_BROKER = "no broker runs on this host"
if os.geteuid():
    _NO_BROKER += ", or this user may not read its settings in /proc"
NO_LOCATION = RemoteView(None, DEFAULT_LAYOUT, StoreSettings())
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Known(Generic[T]):
    """A fact and its source, or the reason why the fact is unknown."""

    value: T | None  # None if the fact is unknown
    source: str  # the reason if the fact is unknown

    def require(self, name: str) -> T:
        """Return the value. If the fact is unknown, raise UsageError with the `name` of the fact in its message."""
        if self.value is None:
            raise UsageError(f"{name} unknown: {self.source}", hint=_OPTION_OF[name])
        return self.value


@dataclass(frozen=True, slots=True)
class Given:
    """The facts from the command line. A field is empty or None if its option was not given."""

    log_dirs: tuple[str, ...]
    server_properties: Path | None
    remote: str | None
    layout: str | None
    stores: StoreSettings
    cluster: Cluster | None
    proc: Path = Path("/proc")  # to find running brokers; tests replace it
    is_cluster_wanted: bool = True  # False if the command never asks the cluster


@dataclass(frozen=True, slots=True)
class Situation:
    """The known facts about one host, its cluster and its remote location."""

    log_dirs: Known[tuple[str, ...]]
    broker: Known[BrokerSettings]
    remote: Known[RemoteView]
    layout: str | None  # name of the layout; None if neither the command line nor the broker's settings have one
    cluster: Known[Cluster]
    # One item per broker that uses these log directories: its settings, or a text that says why they are unknown.
    brokers: tuple[BrokerSettings | str, ...]

    @property
    def is_empty(self) -> bool:
        """Return whether log directories, remote location and cluster are all unknown."""
        return self.log_dirs.value is None and self.remote.value is None and self.cluster.value is None

    @property
    def broker_location(self) -> NamedLocation | None:
        """Return the remote location in the broker's settings; None if the settings have none, or are unknown."""
        return _location_of(self.broker).value

    def verdict(self, location: RemoteLocation) -> LocationVerdict:
        """Return whether this host's brokers read the remote location, according to their settings."""
        from tiersnap.remote_storage.publish.broker_evidence import name_of, settings_evidence
        from tiersnap.remote_storage.publish.location_proof import decide

        return decide(name_of(location), [settings_evidence(self.brokers, location)])

    def refuse_contradiction(self, store: ObjectStore) -> None:
        """Raise WrongPlaceError if the settings of this host's brokers name another location or layout than `store`."""
        from tiersnap.remote_storage.layouts.remote_location import open_location

        self.verdict(open_location(store, self.layout or DEFAULT_LAYOUT)).refuse_contradiction()

    def cluster_to_ask(self) -> Cluster:
        """Return the cluster after checking its id against the log directories.

        Raises:
            UsageError: the cluster is unknown.
            WrongClusterError: a log directory belongs to another cluster.
            BrokerUnavailableError: the cluster does not answer.
        """
        from tiersnap.remote_storage.cluster.copy_tasks import check_cluster
        from tiersnap.snapshot.log.log_dir import read_properties
        from tiersnap.snapshot.log.places import resolve

        cluster = self.cluster.require("cluster")
        owners: dict[str, MetaProperties] = {}
        for uri in self.log_dirs.value or ():
            owner = read_properties(*resolve(uri))
            if owner is not None:
                owners[uri] = owner
        check_cluster(cluster, owners)
        return cluster

    def view_to_read(self) -> RemoteView:
        """Return the remote location to read; NO_LOCATION if it is unknown.

        Raises:
            WrongPlaceError: this host's brokers read another location.
        """
        view = self.remote.value or NO_LOCATION
        if view.remote is not None and self.brokers:
            self.refuse_contradiction(view.open_store())
        return view

    def answering(self, *, needs_remote: bool = False) -> tuple[Situation, list[TiersnapError]]:
        """Return the situation without servers that do not answer, and the errors of these servers.

        A cluster or remote location from the broker's settings gets one request. A cluster or remote location from the
        command line gets no request, and stays in the situation. If its server does not answer, the command fails
        later.

        Args:
            needs_remote: whether the command needs the remote location. If it does, no request is sent to the location.
        """
        cluster, errors = _answering(self.cluster, lambda cluster: cluster.brokers())
        if needs_remote:
            return replace(self, cluster=cluster), errors
        remote, more = _answering(self.remote, RemoteView.ask)
        return replace(self, remote=remote, cluster=cluster), [*more, *errors]

    def without_cluster(self, why: str) -> Situation:
        """Return the situation with an unknown cluster, for the reason `why`."""
        return replace(self, cluster=Known(None, why))

    def lines(self, *names: str) -> Iterator[str]:
        """Yield a line for each fact that the command line does not give. If no broker is known, yield nothing.

        Args:
            names: names of the facts to print; without names all facts are printed.
        """
        if self.broker.value is None:
            return
        found: tuple[tuple[str, Known[tuple[str, ...]] | Known[RemoteView] | Known[Cluster]], ...] = (
            ("log directories", self.log_dirs),
            ("remote location", self.remote),
            ("cluster", self.cluster),
        )
        for name, fact in found:
            if fact.source in (COMMAND_LINE, NOT_ASKED):
                continue
            if names and name not in names:
                continue
            known = "not known" if fact.value is None else _shown(fact.value)
            yield f"{name}: {known}: {fact.source}"


def _answering(fact: Known[T], ask: Callable[[T], object]) -> tuple[Known[T], list[TiersnapError]]:
    if fact.value is None or fact.source == COMMAND_LINE:
        return fact, []
    try:
        ask(fact.value)
    except MissingExtraError as error:  # the client library is not installed, so the fact is unknown; no error
        return Known(None, error.message), []
    except TiersnapError as error:
        return Known(None, error.message), [error]
    return fact, []


def gather(given: Given) -> Situation:
    """Return the situation. `gather` reads /proc, `.lock` and server.properties, and sends no request to any server.

    Raises:
        UsageError: --server-properties cannot be read; or several brokers run on this host, and the command line names
            neither log directories nor a remote location nor a cluster.
    """
    brokers = tuple(_brokers(given))
    broker = _broker(brokers, given)
    remote, layout = _remote(given, broker)
    if not given.log_dirs and broker.value is None:
        brokers = ()
    return Situation(_log_dirs(given, broker), broker, remote, layout, _cluster(given, broker), brokers)


def _brokers(given: Given) -> Iterator[BrokerSettings | str]:
    """Yield the settings in --server-properties, then the settings of each broker that locks a log directory.

    If no log directories are given, yield the settings of all brokers that run on this host.
    """
    from tiersnap.snapshot.host.brokers import brokers_here
    from tiersnap.snapshot.host.running_broker import running_brokers, settings_of_file
    from tiersnap.snapshot.log.places import place_of

    log_dirs = given.log_dirs
    if given.server_properties is not None:
        try:
            file = settings_of_file(given.server_properties)
            log_dirs = log_dirs or file.log_dirs
        except OSError as error:
            raise UsageError(f"--server-properties {given.server_properties}: {error.strerror}") from error
        yield file
    if log_dirs:
        yield from brokers_here(None, map(place_of, log_dirs))
    else:
        yield from running_brokers(proc=given.proc)


def _broker(found: Sequence[BrokerSettings | str], given: Given) -> Known[BrokerSettings]:
    known = [each for each in found if not isinstance(each, str)]
    if given.server_properties is not None:
        return Known(known[0], SERVER_PROPERTIES)
    if len(known) == 1:
        return Known(known[0], _named(known[0]))
    if not known:
        return Known(None, _why_no_broker(found, given))
    if not any((given.log_dirs, given.remote, given.cluster)):
        raise UsageError(f"{_several(known)}: which one?", hint=_one_command_each(known))
    return Known(None, _several(known))


def _why_no_broker(found: Iterable[BrokerSettings | str], given: Given) -> str:
    for each in found:
        if isinstance(each, str):
            return each
    if given.log_dirs:
        return "no broker runs with these log directories: no process holds their lock files .lock"
    return _NO_BROKER


def _named(broker: BrokerSettings) -> str:
    return f"process {broker.pid}, {broker.path}"


def _several(brokers: Sequence[BrokerSettings]) -> str:
    return f"{len(brokers)} brokers run on this host"


def _one_command_each(brokers: Sequence[BrokerSettings]) -> str:
    return "give the log directories of only one broker: " + ", or ".join(" ".join(each.log_dirs) for each in brokers)


def _log_dirs(given: Given, broker: Known[BrokerSettings]) -> Known[tuple[str, ...]]:
    if given.log_dirs:
        return Known(given.log_dirs, COMMAND_LINE)
    if broker.value is None:
        return Known(None, broker.source)
    named = broker.value.log_dirs
    has_log_dir = any(Path(each).is_dir() for each in named)
    if not broker.value.pid and not has_log_dir:
        return Known(None, f"{broker.source} names {', '.join(named)}, but this host has no such directory")
    return Known(named, broker.source)


def _remote(given: Given, broker: Known[BrokerSettings]) -> tuple[Known[RemoteView], str | None]:
    """Return the remote location, and the name of its layout; None if the layout is unknown."""
    found = _location_of(broker)
    theirs = found.value
    uri, layout, stores = given.remote, given.layout, given.stores
    if theirs is not None:
        uri, layout = uri or theirs.remote, layout or theirs.layout
        if uri.rstrip("/") == theirs.remote.rstrip("/"):
            stores = stores.or_else(theirs.settings)
    if not uri:
        return Known(None, found.source), layout
    source = found.source if given.remote is None else COMMAND_LINE
    return Known(RemoteView(uri, layout or DEFAULT_LAYOUT, stores), source), layout


def _location_of(broker: Known[BrokerSettings]) -> Known[NamedLocation]:
    if broker.value is None:
        return Known(None, broker.source)
    from tiersnap.remote_storage.publish.storage_manager import location_of_broker

    try:
        return Known(location_of_broker(broker.value), broker.source)
    except ValueError as error:
        return Known(None, f"{broker.source}: {error}")


def _cluster(given: Given, broker: Known[BrokerSettings]) -> Known[Cluster]:
    if not given.is_cluster_wanted:
        return Known(None, NOT_ASKED)
    if given.cluster is not None:
        return Known(given.cluster, COMMAND_LINE)
    if broker.value is None:
        return Known(None, broker.source)
    from tiersnap.remote_storage.publish.storage_manager import client_words
    from tiersnap.snapshot.log.lock import is_in_use

    if not broker.value.pid and not any(is_in_use(Path(each)) for each in broker.value.log_dirs):
        return Known(None, "the broker does not run")
    words = client_words(broker.value.values)
    if not words or "--command-config" in words:
        return Known(None, f"{broker.source}: the broker has no listener that works without TLS and SASL")
    try:
        return Known(Cluster(words[1], {}), broker.source)
    except MissingExtraError as error:
        return Known(None, error.message)


def _shown(value: tuple[str, ...] | RemoteView | Cluster) -> str:
    if isinstance(value, tuple):
        return ", ".join(value)
    if isinstance(value, RemoteView):
        return f"{value.remote} ({value.layout})"
    return value.bootstrap_server
