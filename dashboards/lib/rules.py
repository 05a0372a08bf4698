"""Recording and alerting rules of Prometheus as Python objects, and the YAML that Prometheus loads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from dashboards.lib.names import alert_label
from otel_rl.semconv import attributes

if TYPE_CHECKING:
    from dashboards.lib.promql import Match


class Links(NamedTuple):
    """Where those who are woken read on; the defaults are those of the stack in ``compose/``."""

    #: The runbook pages: Prometheus serves the folder that ``--web.user-assets`` names, and knows its own address.
    runbooks: str = "{{ $externalURL }}/user"
    grafana: str = "http://127.0.0.1:3000"


STACK = Links()


@dataclass(frozen=True, slots=True)
class RecordingRule:
    """A series that Prometheus computes; ``name`` follows ``level:metric``.

    ``empty_when`` says when it has no data although all is well; None: it always has.
    """

    name: str
    expr: str
    description: str
    empty_when: str | None = None

    def to_yaml_data(self, links: Links = STACK) -> dict[str, Any]:
        """Return the rule as Prometheus reads it; it has no links."""
        return {"record": self.name, "expr": _Text(self.expr)}


@dataclass(frozen=True, slots=True)
class AlertRule:
    """An alert that fires while ``signal`` (PromQL) meets ``condition`` (e.g. ``> 0.1``) without a break for ``wait``.

    ``only`` selects among the series of ``signal``, for example one value of a label. ``subject`` is the attribute that
    says whom it is about: a run, or with ``instance`` a collector. ``description`` and ``summary`` are Prometheus
    templates. The runbook is ``dashboards/runbooks/<page>.md``, with the alert's name unless ``page`` says another. The
    ``board`` is None where no board shows whom it is about.
    """

    name: str
    signal: str
    condition: str
    wait: str
    severity: str
    summary: str
    description: str
    board: str | None
    subject: str = attributes.RL_RUN_ID
    only: Match | None = None
    page: str = ""

    @property
    def expr(self) -> str:
        """The PromQL that Prometheus evaluates."""
        return f"{self.signal}{{{self.only}}} {self.condition}" if self.only else f"{self.signal} {self.condition}"

    @property
    def runbook(self) -> str:
        """The runbook page, relative to ``dashboards/``."""
        return f"runbooks/{self.page or self.name}.md"

    @property
    def _variable(self) -> str:
        return "run" if self.subject == attributes.RL_RUN_ID else self.subject

    def annotations(self, links: Links = STACK) -> dict[str, str]:
        """Return what the on-call engineer reads; the same on every firing, but for the templates' values."""
        texts = {
            "summary": self.summary,
            "description": self.description,
            "runbook_url": f"{links.runbooks}/{self.page or self.name}.md",
        }
        if self.board is not None:
            texts["dashboard"] = f"{links.grafana}/d/{self.board}?var-{self._variable}={alert_label(self.subject)}"
        return texts

    def to_yaml_data(self, links: Links = STACK) -> dict[str, Any]:
        """Return the rule as Prometheus reads it."""
        return {
            "alert": self.name,
            "expr": _Text(self.expr),
            "for": self.wait,
            "labels": {"severity": self.severity},
            "annotations": self.annotations(links),
        }


Rule = RecordingRule | AlertRule


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """Rules that are evaluated one after another, every ``interval``."""

    name: str
    rules: tuple[Rule, ...] = field(default=())
    interval: str = "30s"

    def to_yaml_data(self, links: Links = STACK) -> dict[str, Any]:
        """Return the group as Prometheus reads it."""
        rules = [rule.to_yaml_data(links) for rule in self.rules]
        return {"name": self.name, "interval": self.interval, "rules": rules}


class _Text(str):
    """A string that is written as a block when it has several lines."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    pass


def _represent_text(dumper: yaml.SafeDumper, text: _Text) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style="|" if "\n" in text else None)


_Dumper.add_representer(_Text, _represent_text)


def render(groups: tuple[RuleGroup, ...], links: Links = STACK) -> str:
    """Return the rule file that holds ``groups``, whose alerts link to ``links``."""
    data = {"groups": [group.to_yaml_data(links) for group in groups]}
    header = "# Generated from dashboards/rules; edit there and run `python -m dashboards build`.\n"
    return header + yaml.dump(data, Dumper=_Dumper, sort_keys=False, width=100_000, allow_unicode=True)
