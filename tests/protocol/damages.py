"""What befalls an object of a segment in a store: bit flips, zeros, cuts, losses, and bytes of other logs.

Each function takes the key of one object. All but `rot` leave a checksum that fits, as an upload of wrong bytes does.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.protocol.logs import BASES, Clone, template
from tests.protocol.memory_store import MemoryStore, flipped
from tests.reference.tiered import tier
from tiersnap.remote_storage.layouts.layout import Layout

Damage = Callable[[MemoryStore, str], object]


def rot(store: MemoryStore, key: str) -> None:
    """A disk of the store flips a bit."""
    store.flip(key)


def flip(store: MemoryStore, key: str) -> None:
    """A bit was wrong when the object was uploaded."""
    store.replace(key, flipped(store.objects[key].data))


def zero(store: MemoryStore, key: str) -> None:
    """The second half is zeros."""
    data = store.objects[key].data
    store.replace(key, data[: len(data) // 2] + bytes(len(data) - len(data) // 2))


def cut(store: MemoryStore, key: str) -> None:
    """The second half is missing."""
    data = store.objects[key].data
    store.replace(key, data[: len(data) // 2])


def lose(store: MemoryStore, key: str) -> None:
    """The object is gone."""
    store.delete([key])


DAMAGES: tuple[Damage, ...] = (rot, flip, zero, cut, lose)


def mix_up(store: MemoryStore, key: str, dice: Random) -> None:
    """The object has the bytes of another segment's object."""
    suffix = key.rpartition(".")[2]
    others = [each for each in sorted(store.objects) if each.endswith(f".{suffix}") and each != key]
    if others:
        store.replace(key, store.objects[dice.choice(others)].data)


def swap(store: MemoryStore, key: str, layout: Layout, clone: Clone, *, whole: bool) -> None:
    """The log, or if `whole` each object but the manifest, is that of a clone's segment under the right name."""
    stem = key.rpartition(".")[0]
    base, size = int(stem.rpartition("/")[2][:20]), len(store.objects[f"{stem}.log"].data)
    folder = template(BASES, clone) / "orders-0"
    if (folder / f"{base:020d}.log").stat().st_size != size:
        return  # of a replica that rolled elsewhere
    made = MemoryStore()
    tier(folder, made, layout=layout, bases={base})
    for name, stored in made.objects.items():
        suffix = name.rpartition(".")[2]
        if f"{stem}.{suffix}" in store.objects and (suffix == "log" or (whole and suffix != "rsm-manifest")):
            store.replace(f"{stem}.{suffix}", stored.data)
