"""`tiersnap run --print-submit`: the spark-submit line of a run."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError
from pathlib import Path

from tiersnap.jobs.pipeline import delta_jars
from tiersnap.snapshot.errors import MissingExtraError
from tiersnap.snapshot.installed import with_extra

# What spark-submit takes itself, so that it prepares for that master; both have a value.
_OF_SUBMIT = ("--master", "--spark-conf")
_FLAG = "--print-submit"


def submit_line(
    main: Path, words: Sequence[str], master: str | None, conf: Mapping[str, str], *, config: Path | None = None
) -> str:
    """One line for a shell: `words` go to `main`, but for what spark-submit takes itself.

    Args:
        main: the Python file that spark-submit runs.
        words: of the command line after the command's name.
        master, conf: as settled from the words, the environment and the file of settings.
        config: the file of settings; it goes as TIERSNAP_CONFIG, which the driver reads where spark-submit is called.

    Raises:
        MissingExtraError: pyspark or delta-spark is not installed, so that nobody knows their versions.
    """
    try:
        name, revision = delta_jars.artifact()
    except PackageNotFoundError as error:
        raise MissingExtraError(
            f"{_FLAG} names the jar that goes with pyspark and delta-spark: {error.name} is not installed",
            hint=with_extra("spark"),
        ) from error
    environment = [] if config is None else [f"TIERSNAP_CONFIG={shlex.quote(str(config))}"]
    command = [
        "spark-submit",
        *([] if master is None else ["--master", master]),
        *("--packages", f"io.delta:{name}:{revision}"),
        *(word for setting in conf.items() for word in ("--conf", "=".join(setting))),
        str(main),
        *_of_main(words),
    ]
    return " ".join([*environment, shlex.join(command)])


def _of_main(words: Iterable[str]) -> Iterator[str]:
    left = iter(words)
    for word in left:
        if word in _OF_SUBMIT:
            next(left, None)
        elif word != _FLAG and not word.startswith(tuple(f"{name}=" for name in _OF_SUBMIT)):
            yield word
