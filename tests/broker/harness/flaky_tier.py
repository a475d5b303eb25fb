"""Remote storage that misbehaves when a test says so."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.broker.harness.tiering import LocalTier
from tests.broker.oracle.java import compiled

SOURCE = Path(__file__).with_name("LocalTieredStorage.java")


@dataclass(frozen=True)
class FlakyTier(LocalTier):
    """A LocalTieredStorage whose copies fail while `flags` has a file that says how; see LocalTieredStorage.java."""

    version: str = ""

    @property
    def flags(self) -> Path:
        return self.directory.parent / "flags"

    def broker_settings(self) -> dict[str, str]:
        self.flags.mkdir(exist_ok=True)
        return {
            **super().broker_settings(),
            "remote.log.storage.manager.class.path": f"{compiled(SOURCE, self.version)}/",
            "rsm.config.flags": str(self.flags),
        }
