"""The examples in conf/ that run tiersnap without Airflow: the real command line takes them, and they tier a log."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.reference.command_lines import parse
from tests.reference.small_log import write_small_log
from tiersnap.jobs.cli.output import Output
from tiersnap.jobs.main import cli
from tiersnap.jobs.main import run as tiersnap
from tiersnap.snapshot.errors import ExitCode

pytestmark = pytest.mark.unit

CONF = Path(__file__).parents[2] / "conf"
SHELL_WORDS = {">/dev/null"}


def cron_line() -> list[str]:
    lines = (CONF / "cron/tiersnap").read_text().splitlines()
    (line,) = [line for line in lines if line and not line.startswith("#") and not re.match(r"[A-Z_]+=", line)]
    return line.split(None, 6)


def cron_command() -> list[str]:
    return [word for word in shlex.split(cron_line()[6]) if word not in SHELL_WORDS]


def service_command() -> list[str]:
    (line,) = re.findall(r"^ExecStart=(.*)$", (CONF / "systemd/tiersnap.service").read_text(), re.MULTILINE)
    return shlex.split(line)


def objects_of(name: str) -> dict[str, dict[str, object]]:
    """Objects of a file for Kubernetes, by kind."""
    return {each["kind"]: each for each in yaml.safe_load_all((CONF / "kubernetes" / name).read_text())}


def cron_job(name: str = "cronjob.yaml") -> dict[str, object]:
    return objects_of(name)["CronJob"]


def container(name: str = "cronjob.yaml") -> dict[str, object]:
    pod = cron_job(name)["spec"]["jobTemplate"]["spec"]["template"]["spec"]  # type: ignore[index]
    (only,) = pod["containers"]
    return only  # type: ignore[no-any-return]


def container_command() -> list[str]:
    return list(container()["args"])  # type: ignore[call-overload, no-any-return]


def words(command: list[str]) -> list[str]:
    """What `tiersnap` itself is given."""
    place = next(number for number, word in enumerate(command) if Path(word).name == "tiersnap")
    return command[place + 1 :]


def without_cluster(given: list[str]) -> list[str]:
    """The words without --bootstrap-server: no broker runs beside unit tests."""
    place = given.index("--bootstrap-server")
    return given[:place] + given[place + 2 :]


COMMANDS = {"cron": cron_command, "systemd": service_command, "kubernetes": container_command}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_command_line_takes_every_word(name: str) -> None:
    given = words(COMMANDS[name]())
    with cli.make_context("tiersnap", list(given), obj=Output()) as context:
        left = [*context._protected_args, *context.args]
        command = cli.get_command(context, left[0])
        assert command is not None
        with command.make_context(left[0], left[1:], parent=context) as own:
            assert own.params["remote"] == "s3://my-bucket/tiers"
            assert own.params["apply"] is True
            assert own.params["bootstrap_server"], "it ends with publishing"


@pytest.mark.parametrize("name", COMMANDS)
def test_it_tiers_a_log_and_does_nothing_the_next_night(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = tmp_path / "data"
    logs.mkdir()
    write_small_log(logs)
    places = {
        "/var/lib/kafka/data": str(logs),
        "s3://my-bucket/tiers": str(tmp_path / "remote"),
        "/var/tmp/tiersnap-report": str(tmp_path / "report"),
        "/var/lib/tiersnap/report": str(tmp_path / "report"),
        "/report": str(tmp_path / "report"),
    }
    given = [places.get(word, word) for word in without_cluster(words(COMMANDS[name]()))]
    assert tiersnap(given) == 0
    tiered = {path: path.read_bytes() for path in (tmp_path / "remote").rglob("*") if path.is_file()}
    assert sum(path.suffix == ".rsm-manifest" for path in tiered) == 3
    assert (tmp_path / "report/index.html").is_file()
    capsys.readouterr()
    assert tiersnap(given) == 0
    assert {path: path.read_bytes() for path in (tmp_path / "remote").rglob("*") if path.is_file()} == tiered


def test_cron_mails_what_blocks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The line throws stdout away, so what somebody has to do is said on stderr, quiet or not."""
    logs = str(Path(__file__).parents[1] / "data/ledger-2.7.2/logs")
    places = {"/var/lib/kafka/data": logs, "s3://my-bucket/tiers": str(tmp_path / "remote")}
    given = [places.get(word, word) for word in without_cluster(words(cron_command()))]
    assert "--quiet" in given
    assert tiersnap([word.replace("/var/tmp", str(tmp_path)) for word in given]) == ExitCode.GATE_REFUSED
    assert "12 segments TOPIC_ID_UNKNOWN: in ZooKeeper mode start a broker" in capsys.readouterr().err


def test_the_cron_line_has_a_time_a_user_and_one_line() -> None:
    *when, user, _ = cron_line()
    assert len(when) == 5
    assert all(re.fullmatch(r"\*|[0-9]+", each) for each in when)
    assert user == "kafka"
    assert "%" not in cron_line()[6]  # cron makes a line break of it


@pytest.mark.skipif(shutil.which("flock") is None, reason="no flock here")
def test_a_night_that_takes_longer_than_a_day_is_not_overtaken(tmp_path: Path) -> None:
    command = cron_command()
    flock = command[: command.index("/opt/tiersnap/bin/tiersnap")]
    flock = [str(tmp_path / "lock") if word.startswith("/tmp/") else word for word in flock]
    with subprocess.Popen(
        [*flock, "sh", "-c", "echo held; read line"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == b"held\n"
        second = subprocess.run([*flock, "touch", str(tmp_path / "ran")], check=False, timeout=60)
        first.communicate(b"\n", timeout=60)
    assert second.returncode == 0
    assert not (tmp_path / "ran").exists()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    for unit in (CONF / "systemd").iterdir():
        text = unit.read_text().replace("/opt/tiersnap/bin/tiersnap", sys.executable)
        (tmp_path / unit.name).write_text(text)
    units = sorted(map(str, tmp_path.iterdir()))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True, check=False, timeout=120
    )
    # Only what it says of these units: it also reads those of the machine.
    ours = [line for line in done.stderr.splitlines() if "tiersnap" in line]
    assert (done.returncode, ours) == (0, []), done.stderr


def test_the_cron_job_is_one_of_kubernetes_and_mounts_what_it_reads() -> None:
    job = cron_job()
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "CronJob")
    mounts = {mount["mountPath"]: mount for mount in container()["volumeMounts"]}  # type: ignore[attr-defined]
    assert mounts["/var/lib/kafka/data"]["readOnly"] is True
    assert "/report" in mounts
    policy = job["spec"]["jobTemplate"]["spec"]["podFailurePolicy"]["rules"][0]  # type: ignore[index]
    assert policy["onExitCodes"]["values"] == [2, 4, 5]


@pytest.mark.parametrize("name", ["cronjob.yaml", "run.yaml"])
def test_a_cron_job_runs_as_the_account_of_its_file_which_has_the_role(name: str) -> None:
    found = objects_of(name)
    account = found["ServiceAccount"]["metadata"]["name"]  # type: ignore[index]
    pod = found["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]  # type: ignore[index]
    assert pod["serviceAccountName"] == account
    if "RoleBinding" in found:
        assert found["RoleBinding"]["subjects"] == [{"kind": "ServiceAccount", "name": account}]
        assert found["RoleBinding"]["roleRef"]["name"] == found["Role"]["metadata"]["name"]  # type: ignore[index]
    else:
        assert found["ServiceAccount"]["automountServiceAccountToken"] is False


def test_the_cron_job_of_a_fleet_gives_run_words_that_it_takes_and_knows_its_own_pod() -> None:
    given = container("run.yaml")
    own = parse(words(list(given["args"])))  # type: ignore[call-overload]
    assert (own["apply"], own["remote"]) == (True, "s3://my-bucket/tiers")
    variables = {each["name"] for each in given["env"]}  # type: ignore[attr-defined]
    asked = re.findall(r"\$\((\w+)\)", " ".join(given["args"]))  # type: ignore[call-overload]
    assert set(asked) <= variables
    images = re.findall(r"container\.image=(\S+)", " ".join(given["args"]))  # type: ignore[call-overload]
    assert images == [given["image"]], "executors are of the driver's image"
