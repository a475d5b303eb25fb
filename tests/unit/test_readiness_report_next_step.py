"""Next steps become commands that can be pasted, and say so when something is left to fill in."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

from tests.reference.readiness_tables import RUN
from tiersnap.snapshot.gate.printed_steps import NEXT_STEP, Step, text
from tiersnap.snapshot.gate.verdict import Verdict
from tiersnap.snapshot.report.run_info import RunInfo
from tiersnap.snapshot.report.step_place import by_segment, place_of, segment_file

pytestmark = pytest.mark.unit


def steps(verdict: Verdict, run: RunInfo, log_dirs: tuple[str, ...] = ("/data",)) -> tuple[Step, ...]:
    return place_of(run, log_dirs).beside(FILE).steps(verdict)


SHORT = replace(RUN, source="/data", remote="s3://tier/", warehouse="/tables")
FILE = "/data/orders-0/00000000000000000042.log"
RUN_IT = "tiersnap run --source /data --remote s3://tier/ --warehouse /tables"


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (Verdict.TIERED, []),
        (Verdict.READY, [Step("", f"{RUN_IT} --apply", True)]),
        (
            Verdict.MISSING_SNAPSHOT,
            [
                Step("", f"{RUN_IT} --apply", True),
                Step("or on the host of the broker, while it is stopped:", "tiersnap repair /data --apply", True),
            ],
        ),
        (
            Verdict.SUSPECT_SNAPSHOT,
            [
                Step("", f"{RUN_IT} --replace --apply", True),
                Step(
                    "or on the host of the broker, while it is stopped:",
                    "tiersnap repair /data --replace --apply",
                    True,
                ),
                Step(
                    "or if the log begins in remote storage:",
                    "tiersnap repair /data --remote s3://tier/ --replace --apply",
                    True,
                ),
            ],
        ),
        (
            Verdict.CORRUPT_SEGMENT,
            [
                Step("", "tiersnap dump /data/orders-0/00000000000000000042.log", True),
                Step("shows where the file is damaged; then restore the segment from another replica", "", True),
            ],
        ),
        (
            Verdict.ABOVE_LSO,
            [
                Step(
                    "wait until replication has passed the segment, and its transactions have ended; to see open "
                    "transactions, and how to abort hanging ones:",
                    "tiersnap transactions find-hanging /data --all",
                    True,
                ),
            ],
        ),
        (
            Verdict.TOPIC_ID_UNKNOWN,
            [
                Step(
                    "in ZooKeeper mode start a broker of Kafka 2.8 or later; else give the topic ids:",
                    f"{RUN_IT} --topic-ids FILE",
                    False,
                ),
                Step("or while the broker is stopped:", "tiersnap repair /data --topic-ids FILE --apply", False),
            ],
        ),
        (
            Verdict.MISSING_INDEX,
            [
                Step(
                    "copy leader-epoch-checkpoint from another replica",
                    "",
                    True,
                )
            ],
        ),
        (Verdict.GAP_BEFORE, [Step("first solve the problem of the earlier segment", "", True)]),
    ],
)
def test_words_and_commands_of_each_verdict(verdict: Verdict, expected: list[Step]) -> None:
    assert list(steps(verdict, SHORT)) == expected


def test_every_tiersnap_in_the_next_steps_is_taken_for_a_command_and_no_option_is_lost() -> None:
    for verdict, sentence in NEXT_STEP.items():
        commands = [step.command for step in steps(verdict, SHORT) if step.command]
        assert len(commands) == sentence.count("tiersnap"), verdict
        added = {"--source", "--remote", "--warehouse"}
        options = [word for word in sentence.replace(",", " ").split() if word[:2] == "--" and word not in added]
        assert [word for command in commands for word in command.split() if word[:2] == "--" and word not in added] == (
            options
        ), verdict


def test_paths_with_spaces_and_quotes_reach_the_shell_as_one_word() -> None:
    nasty = "/data/kafka logs/it's; rm -rf $HOME"
    (_, repair) = steps(Verdict.MISSING_SNAPSHOT, SHORT, (nasty,))
    assert shlex.split(repair.command) == ["tiersnap", "repair", nasty, "--apply"]
    assert repair.is_complete


def test_a_value_that_looks_like_a_placeholder_is_not_filled_again() -> None:
    (step,) = steps(Verdict.READY, replace(SHORT, source="REMOTE", remote="a SOURCE b"))
    assert shlex.split(step.command)[3:6] == ["REMOTE", "--remote", "a SOURCE b"]


def test_what_is_not_known_keeps_its_placeholder() -> None:
    _, repair = steps(Verdict.MISSING_SNAPSHOT, SHORT, ())
    assert (repair.command, repair.is_complete) == ("tiersnap repair LOGDIR --apply", False)


def test_step_without_remote_storage_is_incomplete() -> None:
    *_, replaced = steps(Verdict.CORRUPT_SNAPSHOT, replace(SHORT, remote=""))
    words = "or if the log begins in remote storage:"
    assert replaced == Step(words, "tiersnap repair /data --remote s3://bucket/prefix --replace --apply", False)
    (tier,) = steps(Verdict.READY, replace(SHORT, remote=""))
    assert not tier.is_complete


def test_step_names_every_log_directory_of_its_place() -> None:
    _, repair = steps(Verdict.MISSING_SNAPSHOT, SHORT, ("/data/1", "/data 2"))
    assert repair == Step(
        "or on the host of the broker, while it is stopped:", "tiersnap repair /data/1 '/data 2' --apply", True
    )


def test_the_warehouse_is_named_when_there_is_one() -> None:
    (step,) = steps(Verdict.READY, RUN)
    assert step.command.endswith("--warehouse s3://lake/tiersnap --apply")


def test_steps_read_as_one_line() -> None:
    line = text(steps(Verdict.CORRUPT_SEGMENT, SHORT))
    shows = "shows where the file is damaged; then restore the segment from another replica"
    assert line == f"tiersnap dump /data/orders-0/00000000000000000042.log {shows}"


def test_a_segment_file_has_twenty_digits() -> None:
    assert segment_file("/data/", "a-b", 3, 42) == "/data/a-b-3/00000000000000000042.log"


def test_a_command_gets_those_options_of_the_run_that_it_has_and_says_none_twice() -> None:
    options = {
        "run": ("--layout", "local-tiered-storage", "--topic", "a b", "--topic-ids", "ids.txt", "--path-style"),
        "repair": ("--topic", "a b"),
    }
    kept = replace(SHORT, options=options)
    by_run, on_host = steps(Verdict.MISSING_SNAPSHOT, kept)
    run_it = RUN_IT.replace(" --warehouse", " --layout local-tiered-storage --path-style --warehouse")
    assert by_run.command == f"{run_it} --topic 'a b' --topic-ids ids.txt --apply"
    assert on_host.command == "tiersnap repair /data --topic 'a b' --apply"
    ids, _ = [step for step in steps(Verdict.TOPIC_ID_UNKNOWN, kept) if step.command]
    assert ids.command == f"{run_it} --topic 'a b' --topic-ids FILE"


def test_step_of_a_host_names_tier_and_all_its_log_directories() -> None:
    host = replace(SHORT, warehouse="", sources=("/data/1", "/data 2"), options={"tier": ("--topic", "o.*")})
    (tier,) = steps(Verdict.READY, host)
    assert tier == Step("", "tiersnap tier /data/1 '/data 2' --remote s3://tier/ --topic 'o.*' --apply", True)
    assert by_segment(host) == "tiersnap scan /data/1 '/data 2' --segments"
    assert by_segment(RUN) == "tiersnap report --warehouse s3://lake/tiersnap --by segment"


def test_unknown_transactions_lead_to_the_scan_that_needs_no_proof() -> None:
    bounded = replace(SHORT, options={"run": ("--scan", "window")})
    first, cluster, changed = steps(Verdict.UNKNOWN_TRANSACTIONS, bounded)
    assert (first.words, first.command) == (
        "run the same command without a scan window (--scan exact replays the whole log)",
        "",
    )
    assert cluster.words.startswith("or if no earlier upload refused the segment, give a broker")
    assert changed.words.endswith("run the same command again once files of the partition have changed")
