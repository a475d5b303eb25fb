"""What `doctor` says of segments that brokers know and whose objects are missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click
import pytest

from tests.reference.remote_segments import remote_segment
from tiersnap.jobs.cli.next_command import command_place
from tiersnap.jobs.commands.doctor import doctor
from tiersnap.jobs.commands.doctor.cluster import (
    MOST_LINES,
    Compared,
    CopyProblems,
    HungRemoteCopy,
    as_records,
    lines_of,
    steps_of_cluster,
)
from tiersnap.jobs.commands.doctor.copies import steps_once
from tiersnap.jobs.commands.doctor.location import judge_location
from tiersnap.jobs.situation.situation import Given, gather
from tiersnap.remote_storage.cluster.missing_objects import Missing, MissingSegment
from tiersnap.remote_storage.metadata.metadata_cache import MetadataCache
from tiersnap.remote_storage.publish.location_proof import (
    NAME_THE_PLACE,
    Evidence,
    EvidenceKind,
    EvidenceOutcome,
    decide,
)
from tiersnap.remote_storage.stores.store_settings import StoreSettings
from tiersnap.snapshot.gate.next_steps import RESTART_LEADER, UNBLOCK
from tiersnap.snapshot.gate.printed_steps import Step

pytestmark = pytest.mark.unit

SEGMENTS = tuple(
    MissingSegment(remote_segment(at * 10, at * 10 + 9, ((0, at * 10),)), is_ours=at > 0, lacking=(".log",))
    for at in range(MOST_LINES + 2)
)
HINT = Evidence(EvidenceKind.BROKER_SEGMENT, EvidenceOutcome.HINTS, "an older segment is there")
ELSEWHERE = Evidence(EvidenceKind.SERVER_PROPERTIES, EvidenceOutcome.CONTRADICTS, "they name s3://c/")
MISSING = Compared(Missing("s3://b/", 9, SEGMENTS), "aiven", decide("s3://b/", [HINT]), MetadataCache())


def steps(compared: Compared, *words: str) -> list[str]:
    """What is to be typed after a `doctor` with these words."""
    with click.Context(doctor, info_name="doctor") as ctx:
        doctor.parse_args(ctx, list(words))
        return [each.line for each in steps_of_cluster(command_place(["/logs"]), compared, CopyProblems(), ())]


def test_lines_of_missing_segments_name_the_first_and_count_the_rest():
    lines = list(lines_of(MISSING))
    assert "7 of 9 segments that brokers know are not at s3://b/ (1 partition)" in lines[0]
    assert "orders-3 lacks 7 segments between offsets 0 and 69" in lines[0]
    assert f"orders-3 offsets 0 to 9: segment {SEGMENTS[0].metadata.id.segment_id}, uploaded by a broker" in lines[1]
    assert "published by tiersnap, lacks .log" in lines[2]
    assert lines[-1] == "… and 2 segments more: --output json prints all of them"
    found = as_records(MISSING)
    assert len(found.missing) == len(SEGMENTS)
    assert found.place == "nothing proves that brokers read s3://b/: an older segment is there"


def test_next_step_of_missing_segments_is_mend_with_the_options_that_were_given():
    words = ("--bootstrap-server", "h:1", "--remote", "s3://b", "--endpoint-url", "http://m:9", "--path-style")
    given = "--bootstrap-server h:1 --remote s3://b --endpoint-url http://m:9 --path-style"
    does = "--apply   applies the plan of the previous command"
    assert steps(MISSING, *words) == [f"tiersnap mend /logs {given}", f"tiersnap mend /logs {given} {does}"]
    gone = [replace(each, lacking=(".log", ".indexes", ".rsm-manifest")) for each in SEGMENTS]
    assert steps(replace(MISSING, missing=replace(MISSING.missing, segments=gone)), *words) == [
        f"tiersnap mend {given} --from URI   URI is the location to which brokers uploaded the segments",
        f"tiersnap mend {given} --from URI {does}",
    ]
    elsewhere = replace(MISSING, missing=replace(MISSING.missing, elsewhere="aiven"))
    line = f"tiersnap mend {given} --from s3://b --from-layout aiven"
    assert steps(elsewhere, *words) == [line, f"{line} {does}"]


def test_next_step_is_no_command_when_brokers_read_another_location():
    wrong = replace(MISSING, location=decide("s3://b/", [HINT, ELSEWHERE]))
    assert steps(wrong, "--bootstrap-server", "h:1", "--remote", "s3://b") == []
    assert steps(replace(MISSING, missing=Missing("s3://b/", 9)), "--remote", "s3://b") == []
    judged = judge_location(
        gather(Given((), None, "s3://b", None, StoreSettings(), None, Path("/nowhere"))), wrong.location
    )
    assert judged is not None
    assert list(judged.lines()) == [
        "CONTRADICTED: s3://b/: brokers read another location: they name s3://c/",
        NAME_THE_PLACE,
    ]


def test_hung_copy_is_freed_by_the_step_that_its_brokers_allow() -> None:
    copies = CopyProblems((HungRemoteCopy("orders", 3, 2, "id", 0, 60_000, None, 9),))
    with click.Context(doctor, info_name="doctor") as ctx:
        doctor.parse_args(ctx, [])
        place = command_place(["/logs"])
        (freed,) = steps_of_cluster(place, None, copies, (UNBLOCK,))
        (restarted,) = steps_of_cluster(place, None, copies, (RESTART_LEADER,))
    assert freed.command.startswith("tiersnap unblock /logs ")
    assert restarted.command == ""
    assert {freed.note, restarted.note} == {"run this command on the host of broker 2"}


def test_repeated_command_is_printed_once_with_the_first_note() -> None:
    stop, start = Step("stop", "", True), Step("start", "", True)
    plain, noted = Step("", "tiersnap unblock", True), Step("", "tiersnap unblock", True, "needs no room here")
    assert steps_once([plain, stop, noted, start]) == [noted, stop, start]
