"""Images and the examples of docs/deploy.md, as far as they can be checked without Docker, YARN or a cloud."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.reference.command_lines import commands_in, parse, words_of
from tiersnap.jobs.pipeline import delta_jars
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


SPARK = find_spec("pyspark")
assert SPARK is not None
assert SPARK.origin is not None
JARS = Path(SPARK.origin).parent / "jars"
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", *sorted((ROOT / "jobs/airflow").glob("*.py"))]


def hadoop_inside_spark() -> str:
    """As Hadoop says it of itself."""
    (jar,) = JARS.glob("hadoop-client-api-*.jar")
    with zipfile.ZipFile(jar) as archive:
        said = archive.read("common-version-info.properties").decode()
    return re.findall(r"^version=(\S+)$", said, re.MULTILINE)[0]


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
    links = {str(each.resolve().relative_to(ROOT)) for each in (ROOT / "src/tiersnap").iterdir() if each.is_symlink()}
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
    assert words[words.index("--packages") + 1].startswith("io.delta:delta-spark_")
    settings = " ".join(words) + (ROOT / "conf/spark-cluster.example.conf").read_text() * ("--properties-file" in words)
    assert "io.delta.sql.DeltaSparkSessionExtension" in settings


def test_there_is_a_line_for_yarn() -> None:
    assert [words[2] for words in spark_submits()] == ["yarn"]


def test_the_image_for_spark_has_hadoop_aws_of_the_hadoop_inside_spark() -> None:
    """The RUN line as it stands, but for Java, which only prints what it is given."""
    runs = [text for word, text in instructions(ROOT / "conf/images/spark.Dockerfile") if word == "RUN"]
    (line,) = [text for text in runs if "hadoop-aws" in text]
    line = line.replace("/opt/spark/jars", shlex.quote(str(JARS)))
    shell = ["sh", "-c", f"java() {{ printf '%s\\n' \"$@\"; }}; {line}"]
    words = subprocess.run(shell, capture_output=True, text=True, check=True).stdout.splitlines()
    place = words.index("-dependency")
    assert words[place + 1 : place + 4] == ["org.apache.hadoop", "hadoop-aws", hadoop_inside_spark()]
    assert Path(words[words.index("-cp") + 1]).is_file()


@pytest.mark.parametrize("path", ["docs/warehouse.md", "conf/airflow/tiersnap_dags.py"])
def test_a_page_names_hadoop_aws_of_the_hadoop_inside_spark(path: str) -> None:
    named = re.findall(r"org\.apache\.hadoop:hadoop-aws:([\d.]+\d)", (ROOT / path).read_text(encoding="utf-8"))
    assert set(named) == {hadoop_inside_spark()}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_names_jars_of_delta_that_are_pinned(path: Path) -> None:
    named = re.findall(r"io\.delta:(delta-spark_[\d.]+_2\.13)(?::([\d.]*\d))?", path.read_text(encoding="utf-8"))
    assert {f"{name}-{revision or LOCK['delta-spark']}.jar" for name, revision in named} <= delta_jars.pinned().keys()


def test_commands_and_links_of_the_page_are_right() -> None:
    for command in commands_in(PAGE):
        parse(words_of(command) or ())
    for link in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (ROOT / "docs" / link).exists(), link
