"""Export requests of older versions of otel-rl, brought to today's names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.semconv import RENAMED_ATTRIBUTES, SCHEMA_URL
from otel_rl.store.reader.otlp import ROOTS
from otel_rl.store.reader.otlp_values import items_of, list_of, mapping_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_OUR_SCHEMAS = SCHEMA_URL.rpartition("/")[0] + "/"


def bring_up_to_date(request: dict[str, Any]) -> None:
    """Rename the attributes of resources in place; the attributes that were renamed stand nowhere else."""
    for root in ROOTS:
        for entry in items_of(request, root):
            attributes = list_of(mapping_of(entry, "resource"), "attributes")
            former = list(_former(attributes))
            for pair in former:
                pair["key"] = RENAMED_ATTRIBUTES[pair["key"]]
            if former and str(entry.get("schemaUrl")).startswith(_OUR_SCHEMAS):
                entry["schemaUrl"] = SCHEMA_URL


def _former(attributes: list[Any]) -> Iterator[dict[str, Any]]:
    pairs = [pair for pair in attributes if isinstance(pair, dict) and isinstance(pair.get("key"), str)]
    present = {pair["key"] for pair in pairs}
    # A key twice is no valid resource: where a user's setting has the former name, today's wins.
    return (pair for pair in pairs if RENAMED_ATTRIBUTES.get(pair["key"], pair["key"]) not in present)
