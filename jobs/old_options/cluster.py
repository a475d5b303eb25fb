"""Options of the commands that talk to a cluster, and the client properties they come to."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path

import click

from tiersnap.jobs.old_options.once import once
from tiersnap.jobs.old_options.together import Option
from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.snapshot.errors import SourceNotFoundError, UsageError

# Properties of Kafka's Java clients that librdkafka has under another name.
_JAVA_NAMES = {
    "sasl.jaas.config": "sasl.username and sasl.password",
    "ssl.truststore.location": "ssl.ca.location (a PEM file)",
    "ssl.truststore.password": "nothing: ssl.ca.location is a PEM file",
    "ssl.keystore.type": "nothing: ssl.keystore.location is a PKCS#12 file",
}
_CONFIG_HELP = "Client properties, `name=value` lines with librdkafka's names: security.protocol, sasl.username, …"


def client_options(command: Callable[..., object]) -> Callable[..., object]:
    """--bootstrap-server and --command-config, given as `cluster: Cluster`."""

    @wraps(command)
    def with_cluster(*args: object, bootstrap_server: str, command_config: Path | None, **kwargs: object) -> object:
        properties = read_properties(command_config) if command_config else {}
        return command(*args, cluster=Cluster(bootstrap_server, properties), **kwargs)

    decorated = click.option("--command-config", type=click.Path(dir_okay=False, path_type=Path), help=_CONFIG_HELP)(
        with_cluster
    )
    help_text = "A broker of the cluster."
    return click.option("--bootstrap-server", required=True, metavar="HOST:PORT", help=help_text)(decorated)


def cluster_options(command: Callable[..., object]) -> Callable[..., object]:
    """Those of `client_options`, and --broker-id, given as `broker_id`."""
    help_text = "Broker that the records name; the partition's leader by default."
    return client_options(click.option("--broker-id", type=int, metavar="N", help=help_text)(command))


def source_cluster_options(command: Callable[..., object]) -> Callable[..., object]:
    """The optional ones of a command that must not bring back what the cluster has deleted."""
    return optional_client_options(
        command, "A broker of the cluster that the segments come from: what it has deleted is not restored."
    )


def managing_cluster_options(command: Callable[..., object]) -> Callable[..., object]:
    """The optional ones of a command that deletes only what no broker manages."""
    return optional_client_options(
        command, "A broker of the cluster that wrote the segments: what it manages is left to it."
    )


def record_options(command: Callable[..., object]) -> Callable[..., object]:
    """The optional ones of a command that compares records of a cluster with remote storage."""
    # Said each time, as --remote is, without which it is of no use.
    text = "A broker of the cluster: look in --remote for the segments that its brokers know."
    return optional_client_options(command, text, once)


def leader_options(command: Callable[..., object]) -> Callable[..., object]:
    """The optional ones of a command that takes several replicas of a partition."""
    return optional_client_options(
        command,
        "A broker of the cluster: it says whose copy task works, and without --leader which replica of a partition "
        "leads.",
    )


def optional_client_options(
    command: Callable[..., object], help_text: str, option: Callable[..., Option] = click.option
) -> Callable[..., object]:
    """--bootstrap-server and --command-config, given as `cluster: Cluster | None`."""

    @wraps(command)
    def with_cluster(
        *args: object, bootstrap_server: str | None, command_config: Path | None, **kwargs: object
    ) -> object:
        properties = read_properties(command_config) if command_config else {}
        cluster = Cluster(bootstrap_server, properties) if bootstrap_server else None
        return command(*args, cluster=cluster, **kwargs)

    decorated = click.option("--command-config", type=click.Path(dir_okay=False, path_type=Path), help=_CONFIG_HELP)(
        with_cluster
    )
    return option("--bootstrap-server", metavar="HOST:PORT", help=help_text)(decorated)


def read_properties(path: Path) -> dict[str, str]:
    """Lines `name=value`; `#` begins a comment line.

    Raises:
        SourceNotFoundError: there is no such file.
        UsageError: a line has no `=`, or a name is of Kafka's Java clients only.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise SourceNotFoundError(f"{path}: {error.strerror}", hint="--command-config names a text file") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8", hint="--command-config names a text file") from error
    properties: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = (part.strip() for part in line.partition("="))
        if not equals or not name:
            raise UsageError(f"{path}: line {number} is not `name=value`")  # not shown: it may hold a password
        if name in _JAVA_NAMES:
            raise UsageError(
                f"{path}: line {number}: {name} is a property of Kafka's Java clients",
                hint=f"librdkafka's is {_JAVA_NAMES[name]}",
            )
        properties[name] = value
    return properties
