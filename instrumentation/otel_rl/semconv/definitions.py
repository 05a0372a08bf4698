"""Definition types for signals of the registry, which the generated constants instantiate."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """A metric.

    Attributes:
        name: the metric's name.
        instrument: ``counter``, ``updowncounter``, ``histogram`` or ``gauge``; whether it is observable is decided
            where the instrument is created.
        unit: the UCUM unit of its values.
        description: one line.
        boundaries: the bucket boundaries of a histogram, ascending, in `unit`; None for any other instrument.
        attributes: the attributes that its points may carry.
    """

    name: str
    instrument: str
    unit: str
    description: str
    boundaries: tuple[float, ...] | None = None
    attributes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SpanDefinition:
    """A span.

    Attributes:
        type: the identity of its shape, and its name where the caller gives none.
        kind: ``internal``, ``client``, ``server``, ``producer`` or ``consumer``.
        description: one line.
        attributes: the attributes that it may carry, beside the correlation attributes that every span may carry.
    """

    type: str
    kind: str
    description: str
    attributes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EventDefinition:
    """An event: a log record with this event name, or a span event.

    Attributes:
        name: the event's name.
        description: one line.
        attributes: the attributes that it may carry, beside the correlation attributes that every log record may carry.
    """

    name: str
    description: str
    attributes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EntityDefinition:
    """A thing that a resource describes.

    Attributes:
        type: the entity's type.
        description: one line.
        identity: the resource attributes that tell one such entity from another.
        attributes: the resource attributes that describe it.
    """

    type: str
    description: str
    identity: tuple[str, ...]
    attributes: tuple[str, ...] = ()
