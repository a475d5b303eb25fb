"""The table of docs/verify-remote.md: at which depth `verify --remote` finds which damage."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import google_crc32c
import pytest

from tests.reference import log_builder as lb
from tests.reference.plugin_compressed import compress_copy
from tests.reference.poisoned_tier import EMPTY
from tests.reference.tiered import tier
from tiersnap.remote_storage.layouts import rsm_manifest
from tiersnap.remote_storage.layouts.layout import IndexType
from tiersnap.remote_storage.layouts.open_layout import open_layout
from tiersnap.remote_storage.layouts.remote_location import open_location
from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.remote_storage.verify.local_log import LocalLog
from tiersnap.remote_storage.verify.partition_check import PartitionCheck
from tiersnap.snapshot.gate.remote_check import CheckDepth, CheckRequest
from tiersnap.snapshot.log.file_system import LOCAL
from tiersnap.snapshot.log.log_dir import Checkpoints, read_partition
from tiersnap.snapshot.replay.replay_start import Beginnings

pytestmark = pytest.mark.unit

PAGE = Path(__file__).resolve().parents[2] / "docs" / "verify-remote.md"
HEAD = "<!-- made by tests/unit/test_tier_damage.py -->\n\n"
NOW = lb.TIMESTAMP + 3_600_000  # ms: every producer lives
BASES = (0, 52, 104, 156, 208)
VICTIM = 104
FORMS = ("plain", "compressed", "local-tiered-storage")
NOT_FOUND = "not found"
TOPIC_ID = "lZ6vvmajTWKDBUTV6SQAtQ"


def entries(base: int, leader_epoch: int, producer: int) -> list[bytes]:
    """A segment: idempotent producers, one transaction that is committed and one that is aborted."""
    made, offset = [], base

    def add(count: int, producer: int, **how: bool) -> None:
        nonlocal offset
        size = 500 + base + producer // 10
        told = {"timestamp": lb.TIMESTAMP + offset * producer, "leader_epoch": leader_epoch, "payload": b"v" * size}
        made.append(lb.data_batch(offset, count, producer, 0, offset, **told, **how))
        offset += count

    for number in range(9):
        add(5, producer + number % 3)
    for commit in (True, False):
        add(2, producer + 7, transactional=True)
        made.append(lb.marker(offset, producer + 7, 0, 0, commit, lb.TIMESTAMP + offset, leader_epoch=leader_epoch))
        offset += 1
    add(1, producer)
    return made


def log(at: Path, producer: int, epochs: tuple[int, int]) -> Path:
    """Five segments under two leader epochs; the last one is active."""
    segments = {base: entries(base, epochs[base >= VICTIM], producer) for base in BASES}
    lineage = [(epochs[0], 0), (epochs[1], VICTIM)]
    return lb.write_partition(at, "orders", 0, segments, leader_epochs=lineage, high_watermark=208)


@dataclass(frozen=True)
class Tier:
    """A tier, a foreign one of another log, and which segment is to be damaged."""

    root: Path
    foreign: Path
    folder: Path

    def file(self, suffix: str, base: int = VICTIM, root: Path | None = None) -> Path:
        (found,) = (root or self.root).rglob(f"{base:020d}-*.{suffix}")
        return found

    def part(self, index: IndexType, base: int = VICTIM, root: Path | None = None) -> bytes:
        """One part of the indexes object."""
        place = json.loads(self.file("rsm-manifest", base, root).read_text())["segmentIndexes"][
            rsm_manifest.NAMES[index]
        ]
        data = self.file("indexes", base, root).read_bytes()
        return data[place["position"] : place["position"] + place["size"]]

    def put_part(self, index: IndexType, data: bytes) -> None:
        """Put other bytes in its place, and let the manifest say so."""
        manifest = self.file("rsm-manifest")
        said, position, parts = json.loads(manifest.read_text()), 0, []
        for each in IndexType:
            part = data if each is index else self.part(each)
            said["segmentIndexes"][rsm_manifest.NAMES[each]] = {"position": position, "size": len(part)}
            position += len(part)
            parts.append(part)
        self.file("indexes").write_bytes(b"".join(parts))
        manifest.write_text(json.dumps(said))


def laid_out(at: Path, form: str) -> Tier:
    times = {base: lb.TIMESTAMP + base * 10 for base in BASES}
    layout = open_layout(form if form not in FORMS[:2] else "aiven")
    for name, *of in (("right", 10, (0, 1)), ("foreign", 900, (3, 5))):
        tier(log(at / f"{name}-logs", *of), DirectoryStore(at / name), layout=layout, max_timestamps=times)
        for manifest in (at / name).rglob("*.rsm-manifest") if form == "compressed" else ():
            compress_copy(manifest, 4096)
    return Tier(at / "right", at / "foreign", at / "right-logs/orders-0")


def found_by(at: Tier, form: str, depth: CheckDepth, *, has_log: bool = False) -> str | None:
    """The worst verdict, None where all is sound."""
    partition = read_partition(LOCAL, str(at.folder), Checkpoints())
    local = LocalLog(LOCAL, partition, Beginnings()).compare if has_log else None
    of = TopicIdPartition("orders", TOPIC_ID, 0)
    asked = CheckRequest(depth, NOW, 86_400_000)
    location = open_location(DirectoryStore(at.root), form if form == FORMS[2] else "aiven")
    check = PartitionCheck(location, of, asked, compare_locally=local)
    verdicts = [each.verdict for each in check.checks()]
    return min((each.value for each in verdicts if not each.is_sound), default=None)


def swapped_bytes(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def of_other_epochs(data: bytes) -> bytes:
    return data.replace(b"\n1 104", b"\n2 104")


def forge(at: Tier, form: str) -> None:
    """Change a value of the first batch, and make its CRC anew."""
    manifest, path = at.file("log").with_suffix(".rsm-manifest"), at.file("log")
    segment = (at.folder / f"{VICTIM:020d}.log").read_bytes()
    first = entries(VICTIM, 1, 10)[0]
    payload = first[21:].replace(b"v" * 9, b"x" * 9, 1)
    forged = first[:17] + google_crc32c.value(payload).to_bytes(4, "big") + payload
    path.write_bytes(forged + segment[len(first) :])
    if form == "compressed":
        compress_copy(manifest, 4096)


# What is done to one object or part of the segment at VICTIM; by name of the part and of the damage.
SUFFIXES = {
    FORMS[0]: {"log": "log", "indexes object": "indexes", "manifest": "rsm-manifest"},
    FORMS[2]: {
        "log": "log",
        "offset index": "index",
        "time index": "timeindex",
        "transaction index": "txnindex",
        "snapshot": "snapshot",
        "leader epochs": "leader_epoch_checkpoint",
    },
}
SUFFIXES[FORMS[1]] = SUFFIXES[FORMS[0]]
PARTS = {
    "offset index": IndexType.OFFSET,
    "time index": IndexType.TIMESTAMP,
    "transaction index": IndexType.TRANSACTION,
    "snapshot": IndexType.PRODUCER_SNAPSHOT,
    "leader epochs": IndexType.LEADER_EPOCH,
}
POISON: dict[str, Callable[[bytes], bytes]] = {
    "log": swapped_bytes,
    "offset index": lambda data: data[:4] + bytes([0, 0, 0, 9]) + data[8:],
    "time index": lambda data: data[:7] + bytes([data[7] ^ 1]) + data[8:],
    "transaction index": swapped_bytes,
    "snapshot": lambda _: EMPTY,
    "leader epochs": of_other_epochs,
    "indexes object": swapped_bytes,
    "manifest": lambda data: data.replace(b'"endOffset":155', b'"endOffset":154').replace(
        b'"endOffset": 155', b'"endOffset": 154'
    ),
}
NAMES = (
    "log",
    "offset index",
    "time index",
    "transaction index",
    "snapshot",
    "leader epochs",
    "indexes object",
    "manifest",
)
DAMAGES = ("poisoned", "truncated", "swapped", "missing", "foreign")


def damage(at: Tier, form: str, name: str, how: str) -> bool:
    """Return whether this layout has such an object or part."""
    if how == "forged":
        forge(at, form)
        return True
    suffix = SUFFIXES[form].get(name)
    if suffix is not None:
        path = at.file(suffix)
        data = path.read_bytes()
        made = {
            "poisoned": lambda: POISON[name](data),
            "truncated": lambda: data[: len(data) // 2],
            "swapped": lambda: at.file(suffix, 52).read_bytes(),
            "missing": lambda: None,
            "foreign": lambda: at.file(suffix, root=at.foreign).read_bytes(),
            "zeros": lambda: bytes(len(data)),
        }[how]()
        path.unlink() if made is None else path.write_bytes(made)
        return True
    if name not in PARTS:
        return False
    index = PARTS[name]
    data = at.part(index)
    made = {
        "poisoned": lambda: POISON[name](data),
        "truncated": lambda: data[: len(data) // 2],
        "swapped": lambda: at.part(index, 52),
        "missing": lambda: b"",
        "foreign": lambda: at.part(index, root=at.foreign),
        "zeros": lambda: bytes(len(data)),
    }[how]()
    at.put_part(index, made)
    return True


def damages_of(name: str) -> tuple[str, ...]:
    of_it = {"log": ("forged",), "offset index": ("zeros",), "time index": ("zeros",), "transaction index": ("zeros",)}
    return (*DAMAGES, *of_it.get(name, ()))


def found_at(at: Tier, form: str) -> tuple[str, str]:
    """Return the first depth that finds a damage, and the verdict."""
    for depth in CheckDepth:
        if (verdict := found_by(at, form, depth)) is not None:
            return str(depth), str(verdict)
    verdict = found_by(at, form, CheckDepth.FULL, has_log=True)
    return ("full, with LOGDIR", str(verdict)) if verdict is not None else (NOT_FOUND, "")


@pytest.fixture(name="tiers", scope="module")
def fixture_tiers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tier]:
    return {form: laid_out(tmp_path_factory.mktemp(form), form) for form in FORMS}


def cell(right: Tier, form: str, folder: Path, name: str) -> str:
    """Return the damages of an object by the depth that finds them, with the verdict unless it is CORRUPT."""
    by_depth: dict[str, list[str]] = {}
    for how in damages_of(name):
        at = replace(right, root=folder / f"{form} {how}")
        shutil.copytree(right.root, at.root)
        if damage(at, form, name, how):
            depth, verdict = found_at(at, form)
            by_depth.setdefault(depth, []).append(how if verdict == "CORRUPT" else f"{how} ({verdict})")
    order = (*map(str, CheckDepth), "full, with LOGDIR", NOT_FOUND)
    return "; ".join(f"{depth}: {', '.join(by_depth[depth])}" for depth in order if depth in by_depth) or "-"


def row(tiers: dict[str, Tier], folder: Path, name: str) -> str:
    plain, compressed, local = (cell(right, form, folder, name) for form, right in tiers.items())
    assert plain == compressed
    return f"| {name} | {plain} | {local} |\n"


def table(tiers: dict[str, Tier], folder: Path) -> str:
    """The part of the page."""
    head = "| object or part | Aiven's layout, plain or compressed | LocalTieredStorage |\n| --- | --- | --- |\n"
    return HEAD + head + "".join(row(tiers, folder / name, name) for name in NAMES)


@pytest.mark.parametrize("form", FORMS)
def test_verify_finds_nothing_wrong_with_a_tier_that_is_right(tiers: dict[str, Tier], form: str) -> None:
    for depth in CheckDepth:
        assert found_by(tiers[form], form, depth) is None
        assert found_by(tiers[form], form, depth, has_log=True) is None


@pytest.mark.parametrize("name", NAMES)
def test_verify_finds_damage_at_the_depth_that_the_page_says(tiers: dict[str, Tier], tmp_path: Path, name: str) -> None:
    assert row(tiers, tmp_path, name) in PAGE.read_text()
