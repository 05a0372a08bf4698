"""LogQL and TraceQL built from the registry's attributes, events and spans."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboards.lib import collector
from dashboards.lib.names import label_name, traceql_name
from dashboards.lib.promql import THIS_RUN, Match
from otel_rl.semconv import attributes

if TYPE_CHECKING:
    from otel_rl.semconv.definitions import EventDefinition, SpanDefinition

#: What the collector copies ``LogRecord.event_name`` to, since Loki does not keep that field (semantic conventions:
#: ``event.name``).
EVENT_NAME = "event.name"
#: The severity as Loki stores it for records that came over OTLP.
SEVERITY = "severity_text"
_ANY_SERVICE = f'{{{label_name(attributes.SERVICE_NAME)}=~".+"}}'


def logs(*matches: Match) -> str:
    """LogQL for the records of the chosen run that meet ``matches``."""
    return " | ".join([_ANY_SERVICE, *(str(match) for match in (THIS_RUN, *matches))])


def events(*definitions: EventDefinition, where: tuple[Match, ...] = ()) -> str:
    """LogQL for the records of the chosen run that are one of ``definitions``."""
    if len(definitions) == 1:
        return logs(Match(EVENT_NAME, definitions[0].name), *where)
    names = "|".join(definition.name.replace(".", "[.]") for definition in definitions)
    return logs(Match(EVENT_NAME, names, "=~"), *where)


def field(attribute: str) -> str:
    """Return the value of ``attribute`` in LogQL's ``line_format``."""
    return f"{{{{.{label_name(attribute)}}}}}"


def collector_logs(*matches: Match) -> str:
    """LogQL for what the chosen collectors log about themselves that meets ``matches``."""
    who = (Match(collector.ROLE, "$role", "=~"), Match("service.instance.id", "$instance", "=~"))
    selected = f'{{{label_name(attributes.SERVICE_NAME)}="{collector.SERVICE}"}}'
    return " | ".join([selected, *(str(match) for match in (*who, *matches))])


def traces_of_run(*conditions: str, show: tuple[str, ...] = ()) -> str:
    """TraceQL for spans of the chosen run that meet all ``conditions``; ``show`` adds attributes as columns."""
    chosen = f'{traceql_name(attributes.RL_RUN_ID)} = "$run"'
    query = "{ " + " && ".join([chosen, *conditions]) + " }"
    return f"{query} | select({', '.join(traceql_name(key) for key in show)})" if show else query


def named(span: SpanDefinition) -> str:
    """TraceQL condition: the span has the definition's default name."""
    return f'name = "{span.type}"'


def equal(attribute: str, value: str) -> str:
    """TraceQL condition: the text attribute has this value."""
    return f'{traceql_name(attribute)} = "{value}"'
