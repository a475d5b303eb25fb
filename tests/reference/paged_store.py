"""A store that counts the requests of its listings, with pages as S3 has them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from tests.protocol.memory_store import MemoryStore
from tiersnap.remote_storage.stores.object_store import ObjectInfo
from tiersnap.snapshot.errors import RemoteStorageError

PAGE = 1000


@dataclass
class PagedStore(MemoryStore):
    """Each page shows the objects at the time of its request.

    Attributes:
        pages: number of requests.
        keys_read: number of keys in all pages.
        fails_at: number of the request that fails; 0 for none.
    """

    pages: int = 0
    keys_read: int = 0
    fails_at: int = 0
    _sorted: list[str] = field(default_factory=list)
    _at: tuple[int, int] = (0, 0)  # number of changes and of objects when `_sorted` was made

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        while True:
            self.pages += 1
            if self.pages == self.fails_at:
                raise RemoteStorageError("access denied")
            page = self._page(prefix, after)
            self.keys_read += len(page)
            yield from page
            if len(page) < PAGE:
                return
            after = page[-1].key

    def _page(self, prefix: str, after: str) -> list[ObjectInfo]:
        at = self.changes, len(self.objects)
        if at != self._at:
            self._sorted, self._at = sorted(self.objects), at
        first = max(bisect_left(self._sorted, prefix), bisect_right(self._sorted, after))
        page = []
        for key in islice(self._sorted, first, first + PAGE):
            if not key.startswith(prefix):
                break
            found = self.objects[key]
            page.append(ObjectInfo(key, len(found.data), None, found.modified, found.etag))
        return page
