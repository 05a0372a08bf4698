"""Keys of metrics, parameters and tags in MLflow's alphabet: one bad key makes the server refuse a whole request."""

from __future__ import annotations

import re
import zlib

#: Most characters of a key (``MAX_ENTITY_KEY_LENGTH`` of mlflow 3.17).
LONGEST = 250
#: Most keys of which the name is remembered; the names of further ones may clash with each other.
REMEMBERED = 8192
#: What ``_validate_metric_name`` refuses. A server on Windows takes no colon either.
_REFUSED = re.compile(r"[^\w/. -]")


def clean(key: str) -> str:
    """Return ``key`` as MLflow takes it; the same where it does already."""
    # It has to be a normal relative path: no empty part, none of dots, and no dots at its beginning.
    parts = [part if part.strip(".") else "_" * len(part) for part in _REFUSED.sub("_", key).split("/") if part]
    name = "/".join(parts) or "_"
    name = f"_{name[1:]}" if name.startswith(".") else name
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 9].rstrip('/')}_{_hash(key)}"


class Names:
    """The name of each key: two keys never get one name."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        #: Name -> the key that has it.
        self._keys: dict[str, str] = {}

    def of(self, key: str) -> str:
        """Return the name of ``key``, the same at each call."""
        known = self._names.get(key)
        if known is not None:
            return known
        name = clean(key)
        if self._keys.get(name, key) != key:
            name = f"{name[: LONGEST - 9]}_{_hash(key)}"
        if len(self._names) < REMEMBERED:
            self._names[key] = name
            self._keys[name] = key
        return name


def _hash(key: str) -> str:
    return f"{zlib.crc32(key.encode('utf-8', 'replace')):08x}"
