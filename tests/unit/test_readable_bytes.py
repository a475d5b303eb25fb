"""What commands make visible or delete leaves a consumer all that it could read, with the bytes of the log.

Histories are random and seeded: see tests.protocol.histories. After each request of a command the answers of an
independent reader (tests.reference.consumer) are compared with those before. A failure names its seed:
play(seed, folder).
"""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random, SystemRandom

import pytest

from tests.protocol import damages
from tests.protocol.histories import Doubled, History
from tests.protocol.installed import installed
from tests.protocol.logs import BASES, END, LINEAGE, PARTITION, Clone, template
from tests.protocol.memory_store import MemoryStore
from tests.protocol.readable_world import ReadableWorld, Seen, log
from tests.protocol.world import Broken
from tests.reference.consumer import Batches, Consumer
from tests.reference.remote_index import RemoteIndex
from tests.reference.tiered import tier
from tiersnap.remote_storage.layouts.open_layout import LAYOUTS, open_layout
from tiersnap.remote_storage.metadata.metadata_records import SegmentRecord, SegmentUpdate
from tiersnap.remote_storage.metadata.segment_metadata import SegmentState

pytestmark = pytest.mark.unit

LANDING, CHUNK = 120, 20
FOUND = (177898648, 58250515, 199716127, 474412300)
"""What random seeds have found: the only right log has a damaged manifest, or no indexes; the store lost one before."""
STARTED, FINISHED, DELETING, DELETED = SegmentState


def play(seed: int, folder: Path, kind: type[History] = History) -> History:
    """Play one history in a process that sees its world and no other."""
    history = kind(seed, folder)
    try:
        with installed(history.world, seed):
            history.play()
    except BaseException as broken:
        broken.add_note(f"history {seed}: {history.layout}, {history.clone}")
        raise
    shutil.rmtree(folder)
    return history


@pytest.mark.parametrize("first", range(0, LANDING, CHUNK))
def test_commands_leave_a_consumer_all_that_it_could_read(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + CHUNK):
        play(seed, tmp_path / str(seed))


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(20))
def test_commands_leave_a_consumer_all_in_many_histories(part: int, tmp_path: Path) -> None:
    first = SystemRandom().randrange(1_000_000_000)
    for seed in range(first, first + 100):
        play(seed, tmp_path / str(seed))


def test_histories_let_commands_write_and_delete(tmp_path: Path) -> None:
    done = Counter(
        (name, change)
        for seed in range(LANDING)
        for name, _, changes in play(seed, tmp_path / str(seed)).done
        for change in changes
    )
    wanted = [
        ("mend", "put"),
        ("mend", "put back"),
        ("mend", "delete"),
        ("mend", "records"),
        ("publish", "records"),
        ("tier", "put"),
        ("tier", "records"),
        ("unblock", "put"),
        ("unblock", "records"),
    ]
    assert min(done[each] for each in wanted) > 0, done


def test_remove_orphans_deletes_what_no_consumer_needs(tmp_path: Path) -> None:
    """Of segments that are in remote storage twice, and some of them damaged."""
    played = [play(seed, tmp_path / str(seed), Doubled) for seed in range(40)]
    done = Counter((name, change) for each in played for name, _, changes in each.done for change in changes)
    assert done["maintain", "delete"] > 0, done


@pytest.mark.parametrize("seed", FOUND)
def test_remove_orphans_keeps_the_only_right_log(seed: int, tmp_path: Path) -> None:
    play(seed, tmp_path / "history", Doubled)


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(4))
def test_remove_orphans_deletes_what_no_consumer_needs_in_many_histories(part: int, tmp_path: Path) -> None:
    first = SystemRandom().randrange(1_000_000_000)
    for seed in range(first, first + 100):
        play(seed, tmp_path / str(seed), Doubled)


# The reader and the judge can fail.


@pytest.mark.parametrize("layout", LAYOUTS)
def test_consumer_reads_the_whole_log_until_an_object_is_damaged(layout: str) -> None:
    store, index = MemoryStore(), RemoteIndex()
    for each in tier(template(BASES) / "orders-0", store, layout=open_layout(layout)):
        index.apply(SegmentRecord(replace(each, state=STARTED)))
        index.apply(SegmentUpdate(each.id, 1, 1, FINISHED))
    consumer = Consumer(PARTITION, LINEAGE, layout != "aiven")

    def read() -> Batches:
        return consumer.remote(index, {key: stored.data for key, stored in store.objects.items()}, END)

    assert read() == log()
    (second,) = (key for key in store.objects if key.endswith(".log") and f"/{5:020d}-" in key)
    objects = dict(store.objects)
    for damage, lost in ((damages.flip, 1), (damages.cut, 1), (damages.zero, 1), (damages.lose, 5)):
        damage(store, second)
        assert len(log().keys() - read().keys()) >= lost, damage.__name__
        store.objects = dict(objects)
    damages.swap(store, second, open_layout(layout), Clone(5, payload=b"w"), whole=False)
    assert [offset for offset, batch in read().items() if batch != log()[offset]] == [5, 6, 7, 8, 9]


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        (Seen(remote={0: b"0"}), Seen(), "became unreadable"),
        (Seen(), Seen(remote={0: b"other"}), "with bytes of another log"),
        (Seen(known={0: "a"}), Seen(known={0: "b"}), "cannot be read"),
        (Seen(held=frozenset({0})), Seen(), "is deleted"),
        (Seen(remote={0: b"other"}), Seen(remote={0: b"other"}), ""),
        (Seen(), Seen(known={0: "a"}, remote={0: b"0"}), ""),
    ],
)
def test_judge_names_what_a_consumer_lost_or_is_shown(before: Seen, now: Seen, said: str) -> None:
    def real(seen: Seen) -> Seen:
        return replace(
            seen, remote={offset: log()[0] if batch == b"0" else batch for offset, batch in seen.remote.items()}
        )

    found = real(before).broken_by(real(now))
    assert (said in found) if said else not found


def test_world_stops_a_command_that_deletes_what_is_read(tmp_path: Path) -> None:
    world = ReadableWorld(Random("judge"), tmp_path, snapshots={*BASES})
    world.cluster.create(PARTITION, end=20, settings={})
    with installed(world, 1):
        world.advance(10_000)
        assert world.seen().remote == log()
        with pytest.raises(Broken, match="became unreadable"):
            world.run({"vandal": lambda hand: len(hand.store.delete([*world.store.objects]))})
