"""The steps of docs/runbook.md, typed where the trouble is: each prints and ends as it says."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.protocol.situations import found
from tests.reference import situations
from tests.reference.command import tiersnap
from tests.reference.command_lines import words_of
from tests.reference.situations import NOW, CannotBeLaidOutError, Site
from tests.unit.test_runbook import ENTRIES
from tiersnap.snapshot.gate.verdict import Verdict
from tiersnap.snapshot.units import utc

pytestmark = pytest.mark.unit

_RESULT = re.compile(r'`(?:sudo -u \S+ )?(tiersnap [^`]+)`\s+->\s+(?:"([^"]+)",\s+)?exit\s+code\s+(\d)')
# The situation of each heading's trouble: of a host, or of remote storage and a cluster.
OF_HOSTS = {
    "With a stop of the broker": "missing snapshot",
    "A full disk": "full disk",
    "Lost producers": "replica without producers",
    "A wrong snapshot": "suspect snapshot",
    "A log that begins in remote storage": "local retention",
    "A log start that is unknown": "unknown log start",
    "An open transaction": "hanging transaction",
    "A damaged log": "damaged segment",
    "A file in the way": "garbled checkpoint",
    "A damaged index": "damaged index",
    "Lost leader epochs": "lost leader epochs",
    "A lost topic id": "lost topic id",
    "A stray partition": "stray partition",
}
OF_CLUSTERS = {
    "While the broker runs": "stuck",
    "A copy that hangs": "hung copy",
    "Objects that are lost or damaged": "lost log",
    "A remote location that brokers do not read": "wrong place",
    "A lost disk": "published",
}
# Their trouble needs a kill, another user or Spark; their verification is typed all the same.
NOT_PLAYED = {
    "A topic whose copying was left paused",
    "A file that you may not read",
    "A run that Spark ended",
}
# The copy ends on a real broker alone: tests/broker/test_hung_copy.py.
ENDS_ELSEWHERE = "A copy that hangs"
LATER = ("--now", "2026-11-23T12:45:00Z")
Words = list[str | Path]


@dataclass(frozen=True)
class Step:
    """A numbered step; without commands it is for people alone."""

    kind: str
    results: tuple[tuple[str, str, int], ...]

    @property
    def text(self) -> str:
        return " ".join(command for command, _, _ in self.results)


def _steps_of(text: str) -> list[Step]:
    parts = re.findall(r"^\d+\. (Check|Do|Verify)\b(.*?)(?=^\d+\. |^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    found_in = ((kind, _RESULT.findall(re.sub(r"\n +", " ", said))) for kind, said in parts)
    return [Step(kind, tuple((command, says, int(code)) for command, says, code in each)) for kind, each in found_in]


def _ways() -> Iterator[tuple[str, list[Step]]]:
    """Each entry and its steps; of an entry with several ways each of them, behind the steps that they share."""
    for title, text in ENTRIES.items():
        shared, *ways = re.split(r"^### (.+)\n", text, flags=re.MULTILINE)
        for heading, own in zip(ways[::2], ways[1::2], strict=True):
            yield heading, [*_steps_of(shared), *_steps_of(own)]
        if not ways:
            yield title, _steps_of(text)


WAYS = dict(_ways())
VERIFIED = sorted(
    {result for steps in WAYS.values() for step in steps if step.kind == "Verify" for result in step.results}
)


def test_every_way_is_played_and_verified_by_a_command() -> None:
    assert set(WAYS) == {*OF_HOSTS, *OF_CLUSTERS, *NOT_PLAYED}
    assert all(steps[-1].kind == "Verify" and steps[-1].results for steps in WAYS.values())


def _filled(command: str, places: dict[str, tuple[str | Path, ...]]) -> Words:
    return [each for word in words_of(command) or [] for each in places.get(word, (word,))]


def _play(heading: str, typed: Callable[[str], tuple[int, str]], freed: Callable[[], None] | None = None) -> None:
    """Type the steps in order up to the first that only a person or a broker can do."""
    steps = WAYS[heading]
    *_, (command, says, code) = steps[-1].results[:1]
    leads_there = all(step.results for step in steps) or freed
    if not leads_there or "--apply" in " ".join(step.text for step in steps):
        before, printed = typed(command)
        assert (before, says in printed) != (code, True), "the verification is blind to the trouble"
    for step in steps[:-1] if heading == ENDS_ELSEWHERE else steps:
        if not step.results:
            if not freed:
                return
            freed()
        for command, says, code in step.results:
            ended, printed = typed(command)
            assert ended == code, f"{command}\n{printed}"
            assert says in printed, f"{command}\n{printed}"


def _typed_at(site: Site, now: tuple[str, str] = NOW) -> Callable[[str], tuple[int, str]]:
    def typed(command: str) -> tuple[int, str]:
        ids = site.log_dirs[0].parent / "ids.txt"
        ids.write_text("orders 5GXaOJXiRzOuReKRIUWzvw\n")
        places = {"LOGDIR": site.log_dirs, "NEWDIR": site.log_dirs, "s3://bucket/tiers": (site.remote,)}
        places["ids.txt"] = (ids,)
        ran = tiersnap(*_filled(command, places), *now, output="table")
        return ran.exit_code, ran.out + ran.err

    return typed


@pytest.mark.parametrize("heading", OF_HOSTS)
def test_steps_at_a_host_print_and_end_as_they_say(heading: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        try:
            site = stack.enter_context(situations.SITUATIONS[OF_HOSTS[heading]](tmp_path))
        except CannotBeLaidOutError as error:
            pytest.skip(str(error))

        def freed() -> None:
            for name in ("rest", "filler"):
                (site.log_dirs[0] / name).unlink(missing_ok=True)

        now = LATER if heading == "An open transaction" else NOW
        _play(heading, _typed_at(site, now), freed if heading == "A full disk" else None)


@pytest.mark.parametrize("heading", OF_CLUSTERS)
def test_steps_over_a_cluster_print_and_end_as_they_say(heading: str, tmp_path: Path) -> None:
    with found(OF_CLUSTERS[heading], tmp_path) as place:
        places = {
            "LOGDIR": (place.disk,),
            "NEWDIR": (place.target,),
            "s3://bucket/tiers": (place.remote,),
            "s3://bucket/tires": (place.elsewhere,),
        }

        def typed(command: str) -> tuple[int, str]:
            with redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)) as out:
                now = ("--now", utc(place.world.store.time) or "") if "doctor" in command else ()
                code = place.type(*_filled(command, places), *now)
                return int(code), out.buffer.getvalue().decode()

        _play(heading, typed)


@pytest.fixture(scope="module")
def mended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Right snapshots, whole files, all closed segments tiered, nothing hangs."""
    with ExitStack() as stack:
        yield stack.enter_context(situations.SITUATIONS["tiered"](tmp_path_factory.mktemp("mended")))


@pytest.mark.parametrize("result", [each for each in VERIFIED if "--bootstrap-server" not in each[0]])
def test_verification_comes_true_where_nothing_is_wrong(result: tuple[str, str, int], mended: Site) -> None:
    command, says, code = result
    ended, printed = _typed_at(mended)(command)
    assert (ended, says in printed) == (code, True), printed
    waiting = {str(each) for each in Verdict} - {"TIERED", "UPLOADED", "IN_REMOTE", "READY", "ACTIVE_SEGMENT"}
    assert not waiting & set(re.findall(r"\w+", printed))


@pytest.mark.parametrize("result", [each for each in VERIFIED if "--bootstrap-server" in each[0]])
def test_verification_over_a_cluster_comes_true(result: tuple[str, str, int], tmp_path: Path) -> None:
    command, _, code = result
    with found("published", tmp_path) as place:
        places = {"s3://bucket/tiers": (place.remote,), "LOGDIR": (place.disk,), "NEWDIR": (place.disk,)}
        assert place.run(*_filled(command, places)) == code
