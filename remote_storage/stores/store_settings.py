"""The settings of stores, by the scheme of their URIs.

Commands pass them on as one object; a store takes those of its scheme. Credentials are not among them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tiersnap.remote_storage.stores.s3_settings import S3Settings

DEFAULT_LAYOUT = "aiven"


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """A field has the name of its scheme."""

    s3: S3Settings = field(default_factory=S3Settings)

    @property
    def words(self) -> list[str]:
        """Return the options of a command line that give these settings, without defaults."""
        return self.s3.words

    def or_else(self, others: StoreSettings) -> StoreSettings:
        """Return these settings, filled in from `others`."""
        return StoreSettings(self.s3.or_else(others.s3))


def location_words(uri: str, layout: str, options: list[str]) -> list[str]:
    """Return the value of --remote, the layout unless it is the default, and the options that reach the store."""
    return [uri, *([] if layout == DEFAULT_LAYOUT else ["--layout", layout]), *options]
