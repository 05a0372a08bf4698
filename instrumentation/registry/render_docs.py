"""The pages of `docs/reference` that are written from the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instrumentation.registry import upstream
from instrumentation.registry.model import Item, Registry, Signal, Use, annotation
from instrumentation.registry.render_python import constant

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

NOTICE = "<!-- generated; edit instrumentation/registry and run `make generate` -->"


def pages(registry: Registry) -> dict[str, str]:
    """Return the text of each page by its file name."""
    return {
        "attributes.md": _attributes(registry),
        "metrics.md": _metrics(registry),
        "spans.md": _spans(registry),
        "events.md": _events(registry),
        "resource.md": _resource(registry),
    }


def _attributes(registry: Registry) -> str:
    parts = [
        _heading("Attributes", "Every attribute of every signal, with the constant of `otel_rl.semconv.attributes`.")
    ]
    rows = [
        (
            _anchored(key),
            _type(item),
            item["brief"],
            _values(item),
            _origin(item),
            _limits(item),
        )
        for key, item in registry.attributes.items()
    ]
    parts.append(_table(("Key", "Type", "Meaning", "Values or examples", "Defined by", "Limits"), rows))
    parts.append(
        "Limits: *budget n* is how many values a metric may carry in one process; *not on metrics* marks attributes "
        "whose values have no bound; *correlation* marks those that any span or log record may carry, copied from "
        "baggage; *content* marks those that are captured only on request."
    )
    parts.append(_revisions())
    parts += [
        f"`{rename.old}` of older versions is {_link(rename.new)} since {rename.version}: `otel-rl report` and "
        "`replay` take files with either, and processes of older versions go on sending the old one."
        for rename in registry.renames
    ]
    return _page(parts)


def _metrics(registry: Registry) -> str:
    parts = [_heading("Metrics", f"Every metric, with the constant of `otel_rl.semconv.metrics`. {_revisions()}")]
    for signal in registry.metrics:
        parts += _title(signal)
        rows = [
            ("Constant", f"`{constant(signal.name)}`"),
            ("Instrument", signal.item["instrument"]),
            ("Unit", f"`{signal.item['unit']}`"),
        ]
        if boundaries := annotation(signal.item, "boundaries"):
            rows.append(("Buckets", ", ".join(str(boundary) for boundary in boundaries)))
        rows.append(("Defined by", _origin(signal.item)))
        parts += [_table(("", ""), rows), *_uses(signal.uses, registry)]
    return _page(parts)


def _spans(registry: Registry) -> str:
    lead = (
        "Every span, with the constant of `otel_rl.semconv.spans`. "
        "Beside the attributes listed, any span may carry the correlation attributes: "
    )
    parts = [_heading("Spans", lead + _keys(registry.annotated("correlation")) + ".")]
    for signal in registry.spans:
        rows = [
            ("Constant", f"`{constant(signal.name)}`"),
            ("Name", f"`{signal.item['name']['note']}`"),
            ("Kind", signal.item["kind"]),
        ]
        parts += [*_title(signal), _table(("", ""), rows)]
        parts += _uses(signal.uses, registry)
    return _page(parts)


def _events(registry: Registry) -> str:
    lead = (
        "Every event, with the constant of `otel_rl.semconv.events`: log records with this event name, or span events "
        "where the text says so. Any log record may carry the correlation attributes: "
    )
    lead += f"{_keys(registry.annotated('correlation'))}. {_revisions()}"
    parts = [_heading("Events", lead)]
    for signal in registry.events:
        rows = [("Constant", f"`{constant(signal.name)}`"), ("Defined by", _origin(signal.item))]
        parts += [*_title(signal), _table(("", ""), rows)]
        parts += _uses(signal.uses, registry)
    return _page(parts)


def _resource(registry: Registry) -> str:
    parts = [_heading("Resource", "What a process says about itself and its run, once for all its signals.")]
    for signal in registry.entities:
        parts += _title(signal)
        rows = [(_link(use.key), "identity", use.brief) for use in signal.identity]
        rows += [(_link(use.key), "description", use.brief) for use in signal.uses]
        parts.append(_table(("Attribute", "Part", "Meaning"), rows))
    return _page(parts)


def _title(signal: Signal) -> list[str]:
    note = signal.item.get("note", "")
    return [f"## `{signal.name}`", _sentence(signal.item["brief"]), *([_sentence(note)] if note else [])]


def _uses(uses: Sequence[Use], registry: Registry) -> list[str]:
    if not uses:
        return ["No attributes."]
    rows = [(_link(use.key), _type(registry.attributes[use.key]), _requirement(use), use.brief) for use in uses]
    return [_table(("Attribute", "Type", "Required", "Meaning"), rows)]


def _requirement(use: Use) -> str:
    words = {
        "required": "yes",
        "recommended": "recommended",
        "opt_in": "on request",
        "conditionally_required": use.condition,
    }
    return words[use.requirement]


def _type(item: Item) -> str:
    return "string" if isinstance(item["type"], dict) else str(item["type"])


def _values(item: Item) -> str:
    if isinstance(item["type"], dict):
        return "; ".join(f"`{member['value']}` {member['brief']}" for member in item["type"]["members"])
    return ", ".join(f"`{_literal(example)}`" for example in item["examples"])


def _literal(example: object) -> str:
    return str(example).lower() if isinstance(example, bool) else str(example).replace("\n", "\\n")


def _origin(item: Item) -> str:
    name = annotation(item, "upstream")
    return upstream.read()[name].title if name else "otel-rl"


def _revisions() -> str:
    links = [pin.link for pin in upstream.read().values()]
    return f"*Defined by* names the registry that a definition comes from: {', '.join(links)}, or otel-rl's own."


def _limits(item: Item) -> str:
    budget = annotation(item, "cardinality")
    limits = [f"budget {budget}"] if budget else []
    limits += ["not on metrics"] if annotation(item, "identifier") else []
    return ", ".join(limits + [name for name in ("correlation", "content", "open") if annotation(item, name)])


def _anchored(key: str) -> str:
    return f'<a id="{key}"></a>`{key}`'


def _link(key: str) -> str:
    return f"[`{key}`](attributes.md#{key})"


def _keys(keys: Iterable[str]) -> str:
    return ", ".join(_link(key) for key in keys)


def _heading(title: str, lead: str) -> str:
    return f"# {title}\n\n{NOTICE}\n\n{lead}"


def _sentence(text: str) -> str:
    return text if text.endswith(".") else text + "."


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _page(parts: Iterable[str]) -> str:
    return "\n\n".join(parts) + "\n"
