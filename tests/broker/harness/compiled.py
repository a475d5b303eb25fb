"""Storage managers that no registry has as a jar for a release of Kafka, compiled from sources.

LocalTieredStorage is in Kafka's test jars, which Maven Central lacks of 4.4.0: the test sources of 4.3.1 are compiled.
The Aiven plugin is on no registry: TIERSNAP_AIVEN_SOURCE names a clone of its repository on GitHub that has AIVEN_TAG.
"""

from __future__ import annotations

import io
import subprocess
import tempfile
import zipfile
from pathlib import Path

AIVEN_TAG = "v1.0.0"
_AIVEN_MODULES = ("commons", "core", "storage/core", "storage/filesystem", "storage/s3")
_MAIN = "/src/main/java/"
_LOCAL_TIERED_STORAGE = "org/apache/kafka/server/log/remote/storage/LocalTieredStorage.java"
# Where 4.4.0 has classes of kafka-clients; its test utilities, which it lacks, only make a folder that nobody named.
_IN_4_4 = {
    "common.utils.LogContext;": "common.utils.internals.LogContext;",
    "common.utils.ByteBufferInputStream;": "common.utils.internals.ByteBufferInputStream;",
    "common.record.CompressionType;": "common.record.internal.CompressionType;",
    "common.record.FileRecords;": "common.record.internal.FileRecords;",
    "common.record.RecordBatch;": "common.record.internal.RecordBatch;",
    "import org.apache.kafka.test.TestUtils;": "",
    "TestUtils.tempDirectory(": "new File(",
}


def compile_local_tiered_storage(test_sources: Path, kafka: Path) -> None:
    """Add a jar with LocalTieredStorage to the jars in `kafka`, in place of `test_sources`."""
    sources = _java(test_sources.read_bytes())
    _compile(sources, [_LOCAL_TIERED_STORAGE], f"{kafka}/*", kafka / "local-tiered-storage.jar", is_4_4=True)
    test_sources.unlink()


def compile_aiven_plugin(clone: Path, kafka: Path, plugin: Path) -> None:
    """Add a jar with the plugin, for the Kafka in `kafka`, to its dependencies in `plugin`."""
    command = ["git", "-C", str(clone), "archive", "--format=zip", AIVEN_TAG]
    command += [f"{module}{_MAIN}" for module in _AIVEN_MODULES]
    archived = subprocess.run(command, capture_output=True, check=True).stdout
    sources = _java(archived)
    is_4_4 = (kafka / "kafka-clients-4.4.0.jar").exists()
    _compile(sources, list(sources), f"{plugin}/*:{kafka}/*", plugin / "aiven.jar", is_4_4=is_4_4)


def _java(archive: bytes) -> dict[str, str]:
    """Java sources in a zip file, text by path of the class."""
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        names = [name for name in opened.namelist() if name.endswith(".java")]
        return {name.rpartition(_MAIN)[2]: opened.read(name).decode() for name in names}


def _compile(sources: dict[str, str], files: list[str], classpath: str, jar: Path, *, is_4_4: bool) -> None:
    """Compile `files` of `sources`, and what they need of them, into `jar`."""
    with tempfile.TemporaryDirectory() as name:
        root, classes = Path(name, "sources"), Path(name, "classes")
        for path, text in sources.items():
            for old, new in _IN_4_4.items() if is_4_4 else ():
                text = text.replace(old, new)
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        javac = ["javac", "-nowarn", "-proc:none", "-cp", classpath, "-sourcepath", str(root), "-d", str(classes)]
        subprocess.run([*javac, *(str(root / path) for path in files)], capture_output=True, check=True)
        with zipfile.ZipFile(jar, "w") as made:
            for path in sorted(classes.rglob("*.class")):
                made.write(path, path.relative_to(classes))
