"""What the report finds, as marks on the timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.report.core.finding import Finding
    from otel_rl.store.reader import Reader

#: Packages of the extra `report`, which some of its subjects import.
_EXTRA = frozenset({"bokeh", "jinja2", "markupsafe", "numpy", "tqdm"})
_TITLE = 120


class FindingMark(NamedTuple):
    """A finding; ``step`` is the first of it, None where it is of the whole run."""

    title: str
    step: int | None
    arguments: dict[str, Any]


def read(reader: Reader, advance: Callable[[int], object], *, wanted: bool) -> tuple[list[FindingMark], str]:
    """Read the run to its end, and return what the report finds in it where that is ``wanted``, or why it is not known.

    Raises:
        UnusableInput: not one of the files can be read.
    """
    if not wanted:
        _exhaust(reader, advance)
        return [], ""
    try:
        from otel_rl.report import subjects  # noqa: PLC0415 - heavy
        from otel_rl.report.core.collected import Collected  # noqa: PLC0415 - as above
        from otel_rl.report.subjects import overview  # noqa: PLC0415 - as above

        loaded = subjects.load()
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _EXTRA:
            raise
        _exhaust(reader, advance)
        return [], f"no findings: they need {missing}; install otel-rl with its extra `report`"
    collected = Collected(reader, loaded).read(advance)
    return [_mark(finding) for finding in overview.examine(collected).findings], ""


def _exhaust(reader: Reader, advance: Callable[[int], object]) -> None:
    for _ in reader.records(advance):
        pass


def _mark(finding: Finding) -> FindingMark:
    sentence = finding.text if len(finding.text) <= _TITLE else f"{finding.text[: _TITLE - 3]}..."
    told: dict[str, Any] = {
        "severity": finding.gravest.value,
        "text": finding.text,
        "code": finding.code,
        "subject": finding.subject,
        "ranks": finding.ranks,
        "onset_step": finding.onset,
        "cost": finding.cost,
        "evidence": finding.evidence,
        "look_at": finding.look_at,
        "symptoms": [symptom.text for symptom in finding.symptoms],
    }
    arguments = {key: value for key, value in told.items() if value not in (None, "", [])}
    return FindingMark(f"{finding.gravest.value}: {sentence}", finding.onset, arguments)
