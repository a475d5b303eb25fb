"""The settings of stores, one field per URI scheme.

Commands pass the settings on as one object, and a store uses the field of its scheme. The settings have no credentials.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tiersnap.remote_storage.stores.s3_settings import S3Settings

DEFAULT_LAYOUT = "aiven"


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """The settings of all stores. The name of a field is a URI scheme."""

    s3: S3Settings = field(default_factory=S3Settings)

    @property
    def words(self) -> list[str]:
        """Return the command-line options for these settings, without defaults."""
        return self.s3.words

    def or_else(self, others: StoreSettings) -> StoreSettings:
        """Return these settings; unset fields get their value from `others`."""
        return StoreSettings(self.s3.or_else(others.s3))


def location_words(uri: str, layout: str, options: list[str]) -> list[str]:
    """Return the words after `--remote` on a command line.

    The words are the URI, `--layout` unless the layout is the default, and the options of the store.
    """
    if layout == DEFAULT_LAYOUT:
        return [uri, *options]
    return [uri, "--layout", layout, *options]
