"""Options by which a command proves that brokers read the place that --remote names, or goes on without a proof."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import click
from click.core import ParameterSource

from tiersnap.jobs.old_options.once import LAYOUTS, once
from tiersnap.jobs.old_options.remote import s3_options
from tiersnap.jobs.old_options.remote_view import RemoteView
from tiersnap.jobs.old_options.together import as_one
from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.metadata_topic import MetadataTopic
from tiersnap.remote_storage.cluster.missing_objects import Missing, find_missing, read_by_brokers
from tiersnap.remote_storage.cluster.probe_topic import DEFAULT_NAME
from tiersnap.remote_storage.cluster.prove_location import ProvePlace
from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.remote_storage.stores.open_store import open_existing_store
from tiersnap.remote_storage.stores.s3_settings import S3Settings
from tiersnap.snapshot.errors import GateError, UsageError
from tiersnap.snapshot.log.places import place_of

brokers_layout_option = click.option(
    "--layout",
    type=click.Choice(LAYOUTS),
    help="How segments lie in remote storage.  [default: as the brokers' storage manager reads them]",
)
"""--layout, given to the command as a name or None; `ProvePlace.layout` finds what brokers read."""


Talk = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ProofRequest:
    """How a place may be proven.

    Attributes:
        probe_topic: what the name of a probe topic begins with; None where none may be made.
        unproven: whether a place that is not proven will do.
    """

    probe_topic: str | None
    unproven: bool

    def prover(
        self, cluster: Cluster, store: ObjectStore, log_dirs: Sequence[str], talk: Talk, *, apply: bool
    ) -> ProvePlace:
        """Return the looks at `store` that were asked for; `log_dirs` are URIs or paths.

        Raises:
            MetadataTopicAbsentError: the cluster has no metadata topic.
        """
        topic, paths = MetadataTopic.of(cluster), [place_of(uri) for uri in log_dirs]
        return ProvePlace(cluster, topic, store, paths, self.probe_topic, self.unproven, apply, talk)


# Given to the command as `proof: ProofRequest`.
proof_options = as_one(
    "proof",
    ProofRequest,
    once(
        "--probe-topic",
        is_flag=False,
        flag_value=DEFAULT_NAME,
        metavar="[NAME]",
        help="If nothing else proves where brokers read, create a topic whose name begins so, look where its broker "
        f"tiers it, and delete it.  [NAME: {DEFAULT_NAME}]",
    ),
    once("--unproven", is_flag=True, help="Go on if nothing proves that brokers read --remote."),
)


@dataclass(frozen=True, slots=True)
class PlaceRequest:
    """The place that --remote names, and how it may be proven.

    Attributes:
        layout: by name; None where brokers are asked.
    """

    remote: str
    layout: str | None
    proof: ProofRequest
    s3: S3Settings

    def prover(
        self, cluster: Cluster, talk: Talk, *, log_dirs: Sequence[str] = (), apply: bool, writes: bool = False
    ) -> ProvePlace:
        """Return the looks at it; its store may be written to if the command `writes`.

        Raises:
            SourceNotFoundError: it is a directory that is not there.
        """
        store = open_existing_store(self.remote, self.s3, writes=writes)
        return self.proof.prover(cluster, store, log_dirs, talk, apply=apply)


# Given to the command as `place: PlaceRequest`.
place_options = as_one(
    "place",
    PlaceRequest,
    click.option("--remote", required=True, help="Remote storage: s3://bucket/prefix, or a directory."),
    brokers_layout_option,
    proof_options,
    s3_options,
)


@dataclass(frozen=True, slots=True)
class Compared:
    """Records of a cluster beside a place.

    Attributes:
        layout: name of that which brokers read.
        place: whether brokers read there, in a sentence.
        doubt: why that is not proven; None if it is.
    """

    missing: Missing
    layout: str
    place: str
    doubt: GateError | None = None


def compare_records(cluster: Cluster | None, view: RemoteView, talk: Talk) -> Compared | None:
    """Return what the records of a cluster know and the place of `view` lacks; None where no cluster was named.

    The layout is the brokers', unless `--layout` was given.

    Raises:
        UsageError: a cluster was named and no place.
    """
    if cluster is None:
        return None
    if view.remote is None:
        raise UsageError("--bootstrap-server without --remote", hint="name the place of the segments: --remote URI")
    store = open_existing_store(view.remote, view.s3, writes=False)
    prover = ProofRequest(None, unproven=False).prover(cluster, store, (), talk, apply=False)
    is_given = click.get_current_context().get_parameter_source("layout") is not ParameterSource.DEFAULT
    layout = prover.layout(view.layout if is_given else None)
    with prover.metadata_topic.read_all() as reader:
        ask = partial(read_by_brokers, cluster, reader, lambda _: True)
        missing = find_missing(ask, reader.cache.ours, store, layout)
    try:
        return Compared(missing, layout.name, prover.prove(layout).sentence)
    except GateError as doubt:
        return Compared(missing, layout.name, doubt.message, doubt)
