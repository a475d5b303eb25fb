"""Images and the examples of docs/deploy.md, as far as they can be checked without Docker, YARN or a cloud."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.reference.command_lines import commands_in, parse, words_of
from tiersnap.snapshot import __version__

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
IMAGES = sorted((ROOT / "conf/images").glob("*.Dockerfile"))
PAGE = (ROOT / "docs/deploy.md").read_text(encoding="utf-8")
LOCK = {
    each["name"]: each["version"]
    for each in tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    if "version" in each
}
INSTRUCTIONS = {"ARG", "CMD", "COPY", "ENV", "FROM", "RUN", "USER", "WORKDIR"}


def instructions(path: Path) -> list[tuple[str, str]]:
    """(instruction, what follows) of each line that is no comment; none here goes over several lines."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines]


@pytest.mark.parametrize("path", IMAGES, ids=lambda path: path.stem)
def test_an_image_is_written_in_dockers_words_and_copies_what_there_is(path: Path) -> None:
    found = instructions(path)
    assert {word for word, _ in found} <= INSTRUCTIONS
    stages = {text.split(" AS ")[1] for word, text in found if word == "FROM" and " AS " in text}
    for word, text in found:
        if word != "COPY":
            continue
        *sources, _ = shlex.split(text)
        if sources[0].startswith("--from="):
            place = sources[0].removeprefix("--from=")
            assert place in stages or "/" in place
        else:
            assert all((ROOT / source).exists() for source in sources), text


@pytest.mark.parametrize("path", IMAGES, ids=lambda path: path.stem)
def test_an_image_copies_everything_that_the_package_is_made_of(path: Path) -> None:
    copied = {source for word, text in instructions(path) if word == "COPY" for source in shlex.split(text)[:-1]}
    links = {each.readlink().name for each in (ROOT / "src/tiersnap").iterdir() if each.is_symlink()}
    assert links | {"src", "pyproject.toml", "uv.lock", "README.md", "LICENSE"} <= copied
    demo = (ROOT / "jobs/demo/demo_data").resolve().relative_to(ROOT)
    assert str(demo) in copied


@pytest.mark.parametrize("path", IMAGES, ids=lambda path: path.stem)
def test_an_image_has_the_versions_of_the_lock_file_and_the_makefile_and_no_root(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    (uv,) = re.findall(r"^UV_VERSION := (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert re.findall(r"uv(?:==|:)(\d[\d.]+)", text) == [uv]
    for spark in re.findall(r"apache/spark:([\d.]+)", text):
        assert spark == LOCK["pyspark"]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(re.findall(r"--extra (\w+)", text)) <= set(extras)
    users = [text for word, text in instructions(path) if word == "USER"]
    assert users[-1] not in ("root", "0")
    assert f":{__version__}" in text
    assert "Built by buildah" in text.replace("\n# ", " "), "what was tried is said"


def spark_submits() -> list[list[str]]:
    blocks = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    lines = [line.removeprefix("$ ") for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [shlex.split(line) for line in lines if line.startswith("spark-submit")]


@pytest.mark.parametrize("words", spark_submits(), ids=lambda words: words[2])
def test_a_submit_gives_run_words_that_it_takes_and_names_the_jar_of_the_lock_file(words: list[str]) -> None:
    (place,) = [number for number, word in enumerate(words) if word.endswith("tiersnap/jobs/run.py")]
    given = parse(["run", *words[place + 1 :]])
    assert given["apply"] is True
    for package in re.findall(r"io\.delta:delta-spark_4\.1_2\.13:(\S+)", " ".join(words)):
        assert package == LOCK["delta-spark"]
    has_jars = "--packages" in words or any("tiersnap-spark" in word for word in words)
    assert has_jars
    settings = " ".join(words) + (ROOT / "conf/spark-cluster.example.conf").read_text() * ("--properties-file" in words)
    assert "io.delta.sql.DeltaSparkSessionExtension" in settings


def test_there_is_a_line_for_yarn_and_one_for_kubernetes() -> None:
    assert [words[2].partition(":")[0] for words in spark_submits()] == ["yarn", "k8s"]


def test_the_job_of_emr_gives_run_words_that_it_takes() -> None:
    job = json.loads((ROOT / "conf/emr/job-run.json").read_text())
    submit = job["jobDriver"]["sparkSubmit"]
    assert submit["entryPoint"].endswith("tiersnap/jobs/run.py")
    assert parse(["run", *submit["entryPointArguments"]])["apply"] is True
    words = shlex.split(submit["sparkSubmitParameters"])
    assert words[::2] == ["--conf"] * (len(words) // 2)
    assert all("=" in word for word in words[1::2])


def test_the_job_of_databricks_gives_tiersnap_words_that_it_takes() -> None:
    bundle = yaml.safe_load((ROOT / "conf/databricks/job.yaml").read_text())
    (task,) = bundle["resources"]["jobs"]["tiersnap"]["tasks"]
    wheel = task["python_wheel_task"]
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert (wheel["package_name"], wheel["entry_point"] in scripts) == ("tiersnap", True)
    assert parse(wheel["parameters"])["apply"] is True
    assert __version__ in task["libraries"][0]["whl"]


def test_commands_and_links_of_the_page_are_right() -> None:
    for command in commands_in(PAGE):
        parse(words_of(command) or ())
    for link in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (ROOT / "docs" / link).exists(), link
