"""The second table of docs/exit-codes.md: how commands end over remote storage and a cluster, as they may be found."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.protocol.memory_store import MemoryStore
from tests.protocol.situations import SITUATIONS, Place, Word, found
from tests.reference.exit_code_reasons import grouped
from tests.reference.model_cluster import CLUSTER_ID
from tests.reference.situations import CannotBeLaidOutError
from tiersnap.remote_storage.layouts.keys import KeyKind
from tiersnap.remote_storage.stores.object_store import PutResult
from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.units import utc

pytestmark = pytest.mark.unit

PAGE = Path(__file__).resolve().parents[2] / "docs" / "exit-codes.md"
HEAD = """
## Remote storage and a cluster

The tests use a cluster and a store in memory. A broker uploaded one segment of the topic `orders`, and `tier` uploaded
two. Copying is disabled except in *stuck*, *copying on* and *hung copy*. Only `install`, plain `doctor` and `verify` do
not ask the cluster.

| situation | exit codes | what it is |
| --- | --- | --- |
"""
_CLUSTER = ("--bootstrap-server", "model:9092")
_ORDERS = ("--topic", "orders")
Words = Callable[[Place], list[Word]]


def _at(command: str, *options: Word, more: Words = lambda _: []) -> Words:
    """The command over the remote storage of a place."""
    return lambda place: [*command.split(), "--remote", place.remote, *options, *more(place)]


def _with_cluster(command: str, *options: Word, more: Words = lambda _: []) -> dict[str, Words]:
    """Its plan, and what it does with --apply."""
    return {
        f"{command}{short}": _at(command, *_CLUSTER, *options, *flags, more=more)
        for short, flags in (("", ()), (" -a", ("--apply",)))
    }


COMMANDS: dict[str, Words] = {
    "doctor": _at("doctor"),
    "doctor -b": _at("doctor", *_CLUSTER, more=lambda place: ["--now", utc(place.world.store.time) or ""]),
    "verify --depth full": _at("verify --depth full"),
    **_with_cluster("tier", more=lambda place: [place.disk]),
    **_with_cluster("publish", more=lambda place: [place.disk]),
    **_with_cluster("unblock", more=lambda place: [place.disk]),
    **_with_cluster("mend", more=lambda place: ["--from", place.elsewhere]),
    **_with_cluster("maintain remove-orphans"),
    "install": _at("install", more=lambda place: ["--to", place.replica]),
    **_with_cluster("restore", *_ORDERS, more=lambda place: ["--to", place.target]),
    "install -a": _at("install", "--apply", more=lambda place: ["--to", place.replica]),
}


def row(name: str, folder: Path) -> str:
    """A line of the table."""
    with found(name, folder) as place:
        codes = [int(place.run(*words(place))) for words in COMMANDS.values()]
    said = (SITUATIONS[name].__doc__ or "").splitlines()[0]
    return f"| {name} | {grouped(tuple(COMMANDS), codes)} | {said} |\n"


def table() -> str:
    """The part of the page."""
    lines = []
    for name in SITUATIONS:
        with tempfile.TemporaryDirectory() as folder:
            lines.append(row(name, Path(folder)))
    return HEAD + "".join(lines)


def lines_of_page() -> list[str]:
    """Return the rows of the table."""
    return PAGE.read_text().partition(HEAD)[2].splitlines(keepends=True)


@pytest.mark.parametrize("name", SITUATIONS)
def test_every_command_ends_as_the_page_says_of_a_place(name: str, tmp_path: Path) -> None:
    try:
        made = row(name, tmp_path)
    except CannotBeLaidOutError as error:
        pytest.skip(str(error))
    assert made in lines_of_page()


def test_the_page_has_these_places() -> None:
    assert [line.split(" | ")[0].removeprefix("| ") for line in lines_of_page()] == list(SITUATIONS)


def test_tier_uploads_nothing_of_a_topic_that_the_cluster_does_not_have(tmp_path: Path) -> None:
    """Its plan ended with 0, and --apply uploaded three segments before it asked: leftovers that nobody reads."""
    with found("topic deleted", tmp_path) as place:
        snapshots = place.keys(KeyKind.SNAPSHOT)
        assert place.type(*COMMANDS["tier -a"](place)) == ExitCode.GATE_REFUSED
        assert (place.keys(KeyKind.LOG), place.keys(KeyKind.SNAPSHOT)) == ([], snapshots)


def _careless(store: MemoryStore, key: str, data: bytes, metadata: Mapping[str, str] | None = None) -> PutResult:
    return store.replace(key, data, metadata)


@pytest.mark.parametrize(("command", "name"), [("unblock -a", "stuck"), ("mend -a", "lost log")])
def test_nothing_is_written_to_a_store_that_ignores_conditions(
    command: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`unblock` and `mend` did not ask, and two of them could overwrite each other's objects."""
    with found(name, tmp_path) as place:
        before = dict(place.world.store.objects)
        monkeypatch.setattr(MemoryStore, "put_if_absent", _careless)
        assert place.run(*COMMANDS[command](place)) == ExitCode.USAGE
        assert place.world.store.objects == before


@pytest.mark.parametrize(
    "words",
    [COMMANDS["unblock -a"], _at("doctor", *_CLUSTER, more=lambda place: [place.disk])],
    ids=["unblock", "doctor"],
)
def test_a_log_directory_of_another_cluster_is_refused(words: Words, tmp_path: Path) -> None:
    """`unblock` tiered it, under the topic ids of that cluster; `doctor` told what waits there."""
    with found("stuck", tmp_path) as place:
        before = dict(place.world.store.objects)
        path = place.disk / "meta.properties"
        path.write_text(path.read_text().replace(CLUSTER_ID, "Wg9Lw9aXQOe3Wc5x0bqk3w"))
        assert place.run(*words(place)) == ExitCode.GATE_REFUSED
        assert place.world.store.objects == before
