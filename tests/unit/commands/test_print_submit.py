"""`tiersnap run --print-submit`: a line that a shell reads back as the run that was asked for."""

from __future__ import annotations

import shlex
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.reference.command import assert_said, tiersnap
from tiersnap.jobs import run as main

pytestmark = pytest.mark.unit

DELTA = f"io.delta:delta-spark_4.2_2.13:{version('delta-spark')}"
PLACES = ("--source", "/mnt/a volume", "--remote", "s3://bucket/tiers")


def test_the_line_names_the_jar_the_installed_file_and_the_options_as_they_were_given() -> None:
    ran = tiersnap("run", *PLACES, "--expiration", "14d", "--print-submit", "--apply", output="table")
    assert ran.exit_code == 0
    (line,) = ran.out.splitlines()
    assert shlex.split(line) == [
        *("spark-submit", "--packages", DELTA, main.__file__),
        *(*PLACES, "--expiration", "14d", "--apply"),
    ]
    assert Path(main.__file__).is_file()


@pytest.mark.parametrize(
    "words", [("--master", "yarn", "--spark-conf", "a=b c"), ("--master=yarn", "--spark-conf=a=b c")]
)
def test_master_and_spark_settings_go_to_spark_submit_itself(words: tuple[str, ...]) -> None:
    said = shlex.split(tiersnap("run", *words, *PLACES, "--print-submit", output="table").out)
    submit, ours = said[: said.index(main.__file__)], said[said.index(main.__file__) + 1 :]
    assert submit == ["spark-submit", "--master", "yarn", "--packages", DELTA, "--conf", "a=b c"]
    assert ours == list(PLACES)


def test_the_file_of_settings_goes_with_the_line_and_its_master_to_spark_submit(tmp_path: Path) -> None:
    file = tmp_path / "my settings.yaml"
    file.write_text("remote: s3://bucket/tiers\nrun:\n  master: spark://host:7077\n")
    ran = tiersnap("--config", file, "run", "--source", "/mnt", "--print-submit", output="table")
    words = shlex.split(ran.out)
    assert words[:4] == [f"TIERSNAP_CONFIG={file}", "spark-submit", "--master", "spark://host:7077"]
    assert words[-2:] == ["--source", "/mnt"]


def test_what_a_run_would_refuse_is_refused_before_a_line_is_printed() -> None:
    ran = tiersnap("run", "--source", "/mnt", "--print-submit", output="table")
    assert_said(ran, 2, "--remote")
    assert ran.out == ""


def test_a_secret_among_the_spark_settings_is_not_printed() -> None:
    secret = "spark.hadoop.fs.s3a.secret.key=wJalrXUtnFEMI"
    ran = tiersnap("run", *PLACES, "--spark-conf", secret, "--print-submit", output="table")
    assert "wJalrXUtnFEMI" not in ran.out + ran.err
    assert "spark.hadoop.fs.s3a.secret.key=***" in ran.out


def test_it_is_no_setting_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("run:\n  print-submit: true\n")
    assert_said(tiersnap("--config", file, "run", *PLACES), 2, "print-submit")
