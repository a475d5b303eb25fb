"""The known facts about a host, its cluster and its remote location, and who told each of them.

    log directories   the command line; else log.dirs of the broker
    broker            --server-properties; else the process that holds `.lock` of the log directories; without any, the
                      only broker that runs on this host
    remote location   the command line; else the broker's settings
    cluster           the command line; else a listener of the broker without TLS and SASL

A fact of the command line that contradicts the broker's settings is refused. An unknown fact is None.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from tiersnap.jobs.remote_view import RemoteView
from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.stores.s3_settings import S3Settings
from tiersnap.snapshot.errors import MissingExtraError, TiersnapError, UsageError

if TYPE_CHECKING:
    from tiersnap.remote_storage.publish.storage_manager import NamedLocation
    from tiersnap.snapshot.host.running import BrokerSettings

COMMAND_LINE = "the command line"
SERVER_PROPERTIES = "--server-properties"
_OPTION_OF = {
    "log directories": "name the entries of log.dirs, or give --server-properties FILE of a broker that does not run",
    "remote location": "--remote s3://bucket/prefix",
    "cluster": "--bootstrap-server HOST:PORT, and --command-config if its listeners have TLS or SASL",
}
NO_LOCATION = RemoteView(None, "aiven", S3Settings())
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Known(Generic[T]):
    """A known or unknown fact; `source` is who told it, or why it is not known."""

    value: T | None
    source: str

    def require(self, name: str) -> T:
        """Return the value. Raises UsageError if it is not known."""
        if self.value is None:
            raise UsageError(f"{name} not known: {self.source}", hint=_OPTION_OF[name])
        return self.value


@dataclass(frozen=True, slots=True)
class Given:
    """The facts of the command line; empty or None if an option was not given."""

    log_dirs: tuple[str, ...]
    server_properties: Path | None
    remote: str | None
    layout: str | None
    s3: S3Settings
    cluster: Cluster | None
    proc: Path = Path("/proc")  # where running brokers are looked for


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything known about one host, its cluster and its remote location."""

    log_dirs: Known[tuple[str, ...]]
    broker: Known[BrokerSettings]
    remote: Known[RemoteView]
    cluster: Known[Cluster]

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is known that could be asked."""
        return self.log_dirs.value is None and self.remote.value is None and self.cluster.value is None

    @property
    def broker_location(self) -> NamedLocation | None:
        """Return the remote location that the broker's settings name; None if they do not tell."""
        from tiersnap.remote_storage.publish.storage_manager import location_of_broker

        try:
            return None if self.broker.value is None else location_of_broker(self.broker.value)
        except ValueError:
            return None

    def answering(self) -> tuple[Situation, list[TiersnapError]]:
        """Return the situation without the servers that the broker named and that do not answer, and their errors.

        Servers of the command line are not asked: a command that cannot ask them ends with their error.
        """
        found, errors = self, []
        try:
            if self.remote.value is not None and self.remote.source != COMMAND_LINE:
                next(iter(self.remote.value.open_store().list()), None)
        except TiersnapError as error:
            found = replace(found, remote=Known(None, error.message))
            errors.append(error)
        try:
            if self.cluster.value is not None and self.cluster.source != COMMAND_LINE:
                self.cluster.value.brokers()
        except TiersnapError as error:
            found = replace(found, cluster=Known(None, error.message))
            errors.append(error)
        return found, errors

    def lines(self) -> Iterator[str]:
        """Yield a line for each fact that the command line did not tell; none if no broker is known."""
        if self.broker.value is None:
            return
        found: tuple[tuple[str, Known[tuple[str, ...]] | Known[RemoteView] | Known[Cluster]], ...] = (
            ("log directories", self.log_dirs),
            ("remote location", self.remote),
            ("cluster", self.cluster),
        )
        for name, fact in found:
            if fact.source != COMMAND_LINE:
                known = "not known" if fact.value is None else _shown(fact.value)
                yield f"{name}: {known}: {fact.source}"


def gather(given: Given) -> Situation:
    """Return the situation; nothing is read but /proc, `.lock` and server.properties, and no server is asked.

    Raises:
        UsageError: --server-properties cannot be read, or several brokers run on this host and nothing was named.
    """
    broker = _broker(given)
    return Situation(_log_dirs(given, broker), broker, _remote(given, broker), _cluster(given, broker))


def _broker(given: Given) -> Known[BrokerSettings]:
    from tiersnap.remote_storage.publish.broker_evidence import brokers_here
    from tiersnap.snapshot.host.running import BrokerSettings, running_brokers, settings_of_file
    from tiersnap.snapshot.log.places import place_of

    if given.server_properties is not None:
        try:
            return Known(settings_of_file(given.server_properties), SERVER_PROPERTIES)
        except OSError as error:
            raise UsageError(f"--server-properties {given.server_properties}: {error.strerror}") from error
    if given.log_dirs:
        found = list(brokers_here(None, map(place_of, given.log_dirs)))
        known = [each for each in found if isinstance(each, BrokerSettings)]
        why = next((each for each in found if isinstance(each, str)), "no process holds .lock of the log directories")
        return Known(known[0], _named(known[0])) if len(known) == 1 else Known(None, _several(known) if known else why)
    running = running_brokers(proc=given.proc)
    if len(running) > 1 and (given.remote or given.cluster):
        return Known(None, _several(running))
    if len(running) > 1:
        raise UsageError(f"{_several(running)}: which one?", hint=_one_command_each(running))
    return Known(running[0], _named(running[0])) if running else Known(None, "no broker runs on this host")


def _named(broker: BrokerSettings) -> str:
    return f"process {broker.pid}, {broker.path}"


def _several(brokers: Sequence[BrokerSettings]) -> str:
    return f"{len(brokers)} brokers run on this host"


def _one_command_each(brokers: Sequence[BrokerSettings]) -> str:
    return "name the log directories of one: " + ", or ".join(" ".join(each.log_dirs) for each in brokers)


def _log_dirs(given: Given, broker: Known[BrokerSettings]) -> Known[tuple[str, ...]]:
    if given.log_dirs:
        return Known(given.log_dirs, COMMAND_LINE)
    if broker.value is None:
        return Known(None, broker.source)
    return Known(broker.value.log_dirs, broker.source)


def _remote(given: Given, broker: Known[BrokerSettings]) -> Known[RemoteView]:
    from tiersnap.remote_storage.publish.storage_manager import location_of_broker

    if given.remote is not None:
        return Known(RemoteView(given.remote, given.layout or "aiven", given.s3), COMMAND_LINE)
    if broker.value is None:
        return Known(None, broker.source)
    try:
        found = location_of_broker(broker.value)
    except ValueError as error:
        return Known(None, f"{broker.source}: {error}")
    s3 = replace(
        given.s3,
        endpoint_url=given.s3.endpoint_url or found.endpoint_url,
        region=given.s3.region or found.region,
        path_style=given.s3.path_style or found.path_style,
    )
    return Known(RemoteView(found.remote, given.layout or found.layout, s3), broker.source)


def _cluster(given: Given, broker: Known[BrokerSettings]) -> Known[Cluster]:
    from tiersnap.remote_storage.publish.storage_manager import client_words
    from tiersnap.snapshot.log.lock import is_in_use

    if given.cluster is not None:
        return Known(given.cluster, COMMAND_LINE)
    if broker.value is None:
        return Known(None, broker.source)
    if not broker.value.pid and not any(is_in_use(Path(each)) for each in broker.value.log_dirs):
        return Known(None, "the broker does not run")
    words = client_words(broker.value.values)
    if not words or "--command-config" in words:
        return Known(None, f"{broker.source}: no listener without TLS and SASL")
    try:
        return Known(Cluster(words[1], {}), broker.source)
    except MissingExtraError as error:
        return Known(None, error.message)


def _shown(value: tuple[str, ...] | RemoteView | Cluster) -> str:
    if isinstance(value, tuple):
        return ", ".join(value)
    return f"{value.remote} ({value.layout})" if isinstance(value, RemoteView) else value.bootstrap_server
