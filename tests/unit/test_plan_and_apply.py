"""A plan writes nothing, and --apply does what it says: of every command that writes to remote storage or a cluster."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.protocol.situations import SITUATIONS, Place, found
from tests.reference.command import Ran, tiersnap
from tests.reference.situations import CannotBeLaidOutError
from tests.unit.test_exit_codes_remote import COMMANDS
from tiersnap.remote_storage.stores.directory_store import DirectoryStore
from tiersnap.snapshot.errors import ExitCode

pytestmark = pytest.mark.unit

LOGS = Path(__file__).parent.parent / "data/kafka-3.9.1/logs"
# A plan reads no batch of what it would restore, and takes no lock of the log directory that it would write to.
APPLY_ALONE_SEES = {
    ("restore", "damaged log"),
    *((name, where) for name in ("install", "restore") for where in ("target runs", "target full")),
}
PLANS = {name: words for name, words in COMMANDS.items() if f"{name} -a" in COMMANDS}
PLANS |= {"mend LOGDIR": lambda place: [*COMMANDS["mend"](place), place.disk]}


def type_words(place: Place, *words: object) -> Ran:
    """Run a command; what it changes stays."""
    seen: list[Ran] = []

    def run(_: object) -> ExitCode:
        seen.append(tiersnap(*map(str, words)))
        return ExitCode(seen[0].exit_code)

    place.world.run({"command": run})
    return seen[0]


def listing(place: Place) -> dict[str, object]:
    """All that a command may write: objects, uploads, files, topics, records."""
    world = place.world
    files = {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in world.folder.rglob("*")}
    objects = {key: (each.data, each.etag) for key, each in world.store.objects.items()}
    topics = {name: (topic.topic_id, dict(topic.own)) for name, topic in world.cluster.there.items()}
    return {
        "files": files,
        "objects": objects,
        "uploads": set(world.store.uploads),
        "topics": topics,
        "records": {number: len(records) for number, records in world.cluster.log.items() if records},
    }


def changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return [f"{kind}: {set(before[kind]) ^ set(after[kind])}" for kind in before if before[kind] != after[kind]]


@pytest.mark.parametrize("command", PLANS)
@pytest.mark.parametrize("name", SITUATIONS)
def test_a_plan_writes_nothing(name: str, command: str, tmp_path: Path) -> None:
    try:
        with found(name, tmp_path) as place:
            place.world.brokers.run_copier = lambda: None
            before = listing(place)
            type_words(place, *PLANS[command](place))
            assert changed(before, listing(place)) == []
    except CannotBeLaidOutError as error:
        pytest.skip(str(error))


def result(ran: Ran) -> dict[str, Any]:
    return json.loads(ran.out).get("result") or {"rows": []}


def told_by_row(rows: list[dict[str, Any]], *names: str) -> list[tuple[object, ...]]:
    return [tuple(row.get(name) for name in names) for row in rows]


def tiered(plan: dict[str, Any], done: dict[str, Any]) -> None:
    assert told_by_row(plan["rows"], "partition", "planned") == told_by_row(done["rows"], "partition", "uploaded")
    if "plan" in plan:
        planned = plan["plan"]
        assert (planned["segments"], planned["snapshots"], plan["publish"]) == (
            done["segments_uploaded"],
            done["snapshots_written"],
            done["segments_published"],
        )
        assert planned["log_bytes"] <= done["bytes_uploaded"]


def published(plan: dict[str, Any], done: dict[str, Any]) -> None:
    names = ("topic", "partition", "publish", "finish", "known", "others", "refused")
    assert told_by_row(plan["rows"], *names) == told_by_row(done["rows"], *names)
    if "plan" in plan:
        rows = plan["rows"]
        assert plan["plan"]["records"] == done["records_published"]
        assert plan["plan"]["segments"] == sum(row["publish"] + row["finish"] for row in rows if not row["refused"])


def freed(plan: dict[str, Any], done: dict[str, Any]) -> None:
    names = ("topic", "partition", "remote_ends_at", "tier", "publish")
    assert told_by_row(plan["rows"], *names) == told_by_row(done["rows"], *names)
    if "plan" in plan:
        assert plan["plan"]["segments"] == done["segments_uploaded"]


def mended(plan: dict[str, Any], done: dict[str, Any]) -> None:
    names = ("segment_id", "action")
    assert told_by_row(plan["rows"], *names) == told_by_row(done["rows"], *names)
    assert [row["outcome"] == "PLANNED" for row in plan["rows"]] == [row["outcome"] == "MENDED" for row in done["rows"]]


def removed(plan: dict[str, Any], done: dict[str, Any]) -> None:
    names = ("kind", "action", "keys")
    assert told_by_row(plan["rows"], *names) == told_by_row(done["rows"], *names)
    if plan["rows"]:
        wanted = [row for row in plan["rows"] if row["action"] == "REMOVE"]
        assert (len(wanted), plan["removed"]) == (done["removed"], 0)


def installed_files(plan: dict[str, Any], done: dict[str, Any]) -> None:
    names = ("partition", "offset", "action", "producers")
    assert told_by_row(plan["rows"], *names) == told_by_row(done["rows"], *names)


def restored(plan: dict[str, Any], done: dict[str, Any]) -> None:
    names = ("partition", "action", "segments", "bytes", "log_start_offset", "log_end_offset")
    assert told_by_row(plan["rows"], *names) == told_by_row(done["rows"], *names)


COMPARE: dict[str, Callable[[dict[str, Any], dict[str, Any]], None]] = {
    "tier": tiered,
    "publish": published,
    "unblock": freed,
    "mend": mended,
    "mend LOGDIR": mended,
    "maintain remove-orphans": removed,
    "install": installed_files,
    "restore": restored,
}


@pytest.mark.parametrize("command", PLANS)
@pytest.mark.parametrize("name", SITUATIONS)
def test_apply_does_what_the_plan_says(name: str, command: str, tmp_path: Path) -> None:
    if (command, name) in APPLY_ALONE_SEES:
        pytest.skip("see APPLY_ALONE_SEES")
    with found(name, tmp_path) as place:
        plan = type_words(place, *PLANS[command](place))
        done = type_words(place, *PLANS[command](place), "--apply")
        assert plan.exit_code == done.exit_code
        COMPARE[command](result(plan), result(done))


def test_every_command_of_the_plans_is_compared() -> None:
    assert COMPARE.keys() == PLANS.keys()


REQUESTS = (
    "get",
    "get_range",
    "read",
    "head",
    "list",
    "now",
    "delete",
    "replace",
    "replace_if",
    "put_if_absent",
    "put_file_if_absent",
)


@pytest.mark.parametrize("topics", ["orders", "orders|churn|payments|zombie", ".*"])
@pytest.mark.parametrize("has_snapshots", [True, False])
def test_tier_needs_no_more_requests_than_its_plan_says(
    tmp_path: Path, topics: str, monkeypatch: pytest.MonkeyPatch, *, has_snapshots: bool
) -> None:
    logs = shutil.copytree(LOGS, tmp_path / "logs")
    for path in () if has_snapshots else logs.rglob("*.snapshot"):
        path.unlink()
    words = ("tier", logs, "--remote", tmp_path / "remote", "--topic", topics)
    planned = result(tiersnap(*words))["plan"]
    asked: Counter[str] = Counter()
    for name in REQUESTS:
        real = getattr(DirectoryStore, name)
        monkeypatch.setattr(
            DirectoryStore,
            name,
            lambda *args, _name=name, _real=real, **how: asked.update([_name]) or _real(*args, **how),
        )
    done = result(tiersnap(*words, "--apply"))
    assert (done["segments_uploaded"], done["snapshots_written"]) == (planned["segments"], planned["snapshots"])
    assert planned["requests"] / 2 <= asked.total() <= planned["requests"], asked
