"""The house rules see what they are there for, and pass what is allowed."""

from __future__ import annotations

import pytest

from tests.house_measure import House, worse
from tests.house_rules import (
    problems_of,
    problems_of_classes,
    problems_of_command,
    problems_of_docstrings,
    problems_of_lock,
    problems_of_logger,
)

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "line",
    [
        "rows.rdd.map(f)",
        "spark.sparkContext.parallelize([1])",
        "spark._jsc.hadoopConfiguration()",
        "frame._jdf.count()",
        "SparkContext._active_spark_context._jvm",
        "rows.toPandas()",
        "import pandas as pd",
        "from pandas import DataFrame",
        "for row in frame.collect():",
        "frame.toArrow()",
        'f"{len(found)} segments wait"',
    ],
)
def test_a_line_of_the_product_that_breaks_a_rule_is_named(line: str) -> None:
    assert problems_of("jobs/pipeline/listing.py", line, is_product=True)


@pytest.mark.parametrize(
    "line",
    [
        "from pyspark.sql.pandas.types import x",
        "collected = 1",
        "F.collect_list('a')",
        "_scan()",
        "{count_of(n, 'segment')} of",
    ],
)
def test_a_line_that_only_looks_like_one_passes(line: str) -> None:
    assert problems_of("jobs/pipeline/listing.py", line, is_product=True) == []


def test_only_the_places_that_are_listed_bring_rows_to_the_driver() -> None:
    assert problems_of("jobs/pipeline/totals.py", "x = rows.collect()", is_product=True) == []
    assert problems_of("jobs/demo.py", "x = rows.collect()", is_product=True) != []
    assert problems_of("tests/spark/test_source.py", "x = rows.collect()", is_product=False) == []


def test_problems_of_command_names_a_file_without_a_command() -> None:
    assert problems_of_command("@click.command()\ndef scan() -> int:\n    return 0\n") == []
    assert problems_of_command("x = 1\n") != []


def test_a_package_without_a_hash_or_from_elsewhere_is_found_in_the_lock_file():
    file = 'url = "https://files.pythonhosted.org/a.whl", hash = "sha256:' + "0" * 64 + '"'
    entry = '[[package]]\nname = "a"\nsource = {{ {source} }}\nwheels = [{{ {file} }}]\n'
    pypi = 'registry = "https://pypi.org/simple"'
    assert problems_of_lock(entry.format(source=pypi, file=file)) == []
    assert problems_of_lock(entry.format(source=pypi, file='url = "a.whl"')) == ["a: a.whl has no hash"]
    assert problems_of_lock(entry.format(source=pypi, file=file.replace("sha256", "md5")))
    assert problems_of_lock(entry.format(source='git = "https://github.com/a/a"', file=file))
    assert problems_of_lock(f'[[package]]\nname = "a"\nsource = {{ {pypi} }}\n') == ["a has no files"]


LOGGER = "_log = logging.getLogger(__name__)\n"


@pytest.mark.parametrize(
    "act",
    ["os.replace(a, b)", "client.put_object(Key=a)", "write_deltalake(a)", "producer.produce(a)", "a.unlink()"],
)
def test_a_module_that_acts_logs_what_it_does(act: str) -> None:
    assert problems_of_logger("remote_storage/x.py", act) != []
    assert problems_of_logger("remote_storage/x.py", f"{LOGGER}{act}\n_log.debug('wrote %s', a)") == []


def test_a_logger_that_nothing_uses_is_named_and_what_computes_needs_none() -> None:
    assert problems_of_logger("snapshot/x.py", LOGGER) != []
    assert problems_of_logger("snapshot/x.py", "text.replace('a', 'b')\nx = 1 + 1") == []


def test_a_public_class_whose_name_another_module_has_is_named() -> None:
    seen: dict[str, str] = {}
    module = "class Segment:\n    pass\n\nclass _Pass:\n    pass\n"
    assert not problems_of_classes("snapshot/log/log_dir.py", module, seen)
    assert problems_of_classes("jobs/pipeline/source.py", module, seen) == [
        "Segment is a class of snapshot/log/log_dir.py too: one concept, one name"
    ]


def test_a_docstring_that_begins_vaguely_is_named_by_its_line() -> None:
    text = '"""Numbers."""\n\ndef half(n):\n    """What half of it is."""\n\nclass Half:\n    """Half of a number."""\n'
    assert problems_of_docstrings(text) == ["4: a docstring begins with a command or a noun, not 'What'"]


NAMES = (
    *("branches", "complex", "dense", "comprehensions", "conditionals", "classes", "pairs", "deciders", "empty nouns"),
)
MODULE = '''
"""A module."""


class One:
    """What is one."""

    a: int
    b: int
    c: int
    d: int
    e: int


class Other(One):
    a: str
    b: str
    c: str
    d: str
    e: str


def dense(x, y):
    """Return a sum."""
    return [each if each else x for each in y if each and x and y or x]


def code() -> ExitCode:
    for each in range(2):
        if each:
            return ExitCode.OK
    return ExitCode.USAGE
'''


def test_house_figures_are_those_counted_by_hand() -> None:
    house = House()
    house.add(MODULE, is_gate=False)
    found = dict(zip(("tokens", *NAMES), house.figures().values(), strict=True))
    del found["tokens"]  # those of Python's own tokenizer
    # `dense`: 1, the comprehension, its condition, three operands behind the first, and the conditional expression.
    # `code`: 1, the loop and the condition. 22 statements: the module's docstring, two classes with 5 fields and one
    # docstring, two functions with one docstring, one return, a loop, a condition and two returns.
    assert found == {
        "branches": 10,
        "complex": 0,
        "dense": 100,
        "comprehensions": round(1000 / 22, 1),
        "conditionals": round(1000 / 22, 1),
        "classes": 2,
        "pairs": 1,
        "deciders": 1,
        "empty nouns": 1,
    }


def test_house_figures_do_not_count_exit_codes_of_the_gate() -> None:
    house = House()
    house.add(MODULE, is_gate=True)
    assert house.deciders == 0


def test_house_figures_count_a_function_with_eleven_branches_as_complex() -> None:
    house = House()
    tests = "\n".join(f"    if x == {number}: return {number}" for number in range(9))
    house.add(f"def ten(x):\n{tests}\ndef eleven(x):\n{tests}\n    if x: return 10\n", is_gate=False)
    assert house.figures()["functions with more than 10 branches"] == 1


def test_worse_names_a_figure_above_its_limit_only() -> None:
    limits = {"classes": 2, "branches": 5.5}
    assert worse({"classes": 2, "branches": 5.5}, limits) == []
    (line,) = worse({"classes": 3, "branches": 5}, limits)
    assert line.startswith("classes: 3, at most 2")
