"""A server that does not let claims be finished, so that copies stay which nobody finished."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tiersnap.remote_storage.stores.object_store import ObjectStore
from tiersnap.snapshot.errors import TransientError


class NoFinish:
    """A store that refuses so many times to finish a claim, and whose claims are so much older (ms) than they are."""

    def __init__(self, store: ObjectStore, refusals: int = 0, older: int = 0) -> None:
        self._store, self.refusals, self._older = store, refusals, older
        self.claims_read = 0

    @property
    def uri(self) -> str:
        return self._store.uri

    @property
    def words(self) -> list[str]:
        return self._store.words

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def replace_if(self, key: str, data: bytes, *args: Any, **more: Any) -> Any:
        if key.startswith("claims/") and b'"finished":null' not in data and self.refusals:
            self.refusals -= 1
            raise TransientError(f"{key}: 503")
        return self._store.replace_if(key, data, *args, **more)

    def read(self, key: str, *args: Any, **more: Any) -> Any:
        found = self._store.read(key, *args, **more)
        self.claims_read += key.startswith("claims/")
        return replace(found, read_at=found.read_at + self._older)
