"""``--notify``: posts what turns critical, a hang or a death, once, or runs a command with it."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from otel_rl.core import stderr
from otel_rl.live import posting
from otel_rl.report.core.finding import Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from otel_rl.live.run_watch import RunWatch

#: Seconds for one try, and before the second and last one.
_DEADLINE, _PAUSE = posting.DEADLINE + 5.0, 5.0
#: Most notifications of one run, and those on their way at once: more is a storm.
_MOST_OF_A_RUN, _MOST_AT_ONCE = 50, 20
_LONGEST_REASON = 200
#: Codes of a process's end: the report and the rings say the same of it.
_DEATHS = frozenset({"gone", "ended", "missing_ranks"})
_VARIABLES = ("run", "code", "severity", "title", "place", "onset", "cost", "address", "text")


class UnusableTarget(Exception):  # noqa: N818 - reads as what it is
    """What ``--notify`` names cannot be used; the message is for the user."""


@dataclass(frozen=True)
class NotifyTarget:
    """An address or a command; ``label`` names it without what may be a secret in it."""

    label: str
    address: str = ""
    command: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str) -> NotifyTarget:
        """Read what the user gave.

        Raises:
            UnusableTarget: it is neither.
        """
        if text.lower().startswith(("http://", "https://")):
            try:
                parts = urlsplit(text)
                host, _ = parts.hostname, parts.port
            except ValueError:
                host = None
            if not host or any(character.isspace() for character in text):
                raise UnusableTarget("--notify: this is no address that can be posted to")
            return cls(f"{parts.scheme}://{host}", address=text)
        try:
            command = tuple(shlex.split(text))
        except ValueError as error:
            raise UnusableTarget(f"--notify: not a command: {error}") from None
        if not command:
            raise UnusableTarget("--notify needs an address (http://, https://) or a command")
        return cls(os.path.basename(command[0]), command=command)  # noqa: PTH119 - a word of a command


class Notifier:
    """Sends each thing once to every target; :meth:`close` waits for what is on its way."""

    def __init__(self, targets: list[NotifyTarget], address: Callable[[str], str] = lambda _: "") -> None:
        self._targets = targets
        self._address = address
        self._sent: dict[str, set[tuple[object, ...]]] = {}
        self._under_way: set[asyncio.Task[None]] = set()
        self._complained: set[tuple[str, str]] = set()

    def tell(self, watch: RunWatch) -> None:
        """Send what is new of a run that is followed."""
        for key, content in _worth_telling(watch):
            sent = self._sent.setdefault(watch.run_id, set())
            if key in sent:
                continue
            if len(sent) >= _MOST_OF_A_RUN:
                self._say_once(watch.run_id, f"{watch.run_id}: {len(sent)} notifications were sent, no more will be")
                return
            sent.add(key)
            self._send({**content, "address": self._address(watch.folder.name)})

    async def close(self) -> None:
        """Wait until all is sent or given up, which has a deadline."""
        if self._under_way:
            await asyncio.wait(set(self._under_way), timeout=2 * _DEADLINE + _PAUSE)

    def _send(self, content: dict[str, Any]) -> None:
        for target in self._targets:
            if len(self._under_way) >= _MOST_AT_ONCE:
                self._complain(target, "too many notifications are on their way; this one is left out")
                continue
            task = asyncio.get_running_loop().create_task(self._deliver(target, content))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    async def _deliver(self, target: NotifyTarget, content: dict[str, Any]) -> None:
        reason = await _attempt(target, content)
        if reason:
            await asyncio.sleep(_PAUSE)
            reason = await _attempt(target, content)
        if reason:
            self._complain(target, reason)

    def _complain(self, target: NotifyTarget, reason: str) -> None:
        self._say_once(target.label, f"a notification to {target.label} failed: {reason}")

    def _say_once(self, whose: str, said: str) -> None:
        if (whose, said) not in self._complained:
            self._complained.add((whose, said))
            stderr.write_line(f"otel-rl live: {said}")


def _worth_telling(watch: RunWatch) -> Iterator[tuple[tuple[object, ...], dict[str, Any]]]:
    for finding in watch.standing.findings:
        if finding.severity is Severity.CRITICAL:
            content = finding.as_json()
            yield _key(finding.code, finding.ranks), _content(watch, content, content["title"], content["place"])
    for found in watch.findings:
        if found["severity"] == Severity.CRITICAL.value:
            title = found["text"].partition(". ")[0].rstrip(".")
            onset = found["onset_step"]
            content = {**found, "onset": f"step {onset}" if onset is not None else ""}
            place = ", ".join([*(f"rank {rank}" for rank in found["ranks"][:8]), *filter(None, [found["subject"]])])
            yield _key(found["code"], found["ranks"], found["subject"]), _content(watch, content, title, place)


def _key(code: str, ranks: list[int], subject: str | None = None) -> tuple[object, ...]:
    """Return what makes two findings the same; a run dies once, whoever says it."""
    return ("death",) if code in _DEATHS else (code, subject, *sorted(ranks))


def _content(watch: RunWatch, finding: Mapping[str, Any], title: str, place: str) -> dict[str, Any]:
    run = watch.run_id
    cost = finding["cost"]
    return {
        "text": f"otel-rl: {run}: {finding['text']}",
        "run": run,
        "code": finding["code"],
        "severity": finding["severity"],
        "title": title,
        "place": place,
        "onset": finding["onset"],
        "cost": f"{cost:.0%}" if isinstance(cost, float) else str(cost or ""),
    }


async def _attempt(target: NotifyTarget, content: dict[str, Any]) -> str:
    """Try once; return why it failed, or nothing."""
    body = json.dumps(content).encode()
    command = list(target.command)
    if target.address:
        body = f"{target.address}\n".encode() + body
        command = [sys.executable, "-m", "otel_rl.live.posting"]
    variables = {f"OTEL_RL_NOTIFY_{name.upper()}": _as_variable(content[name]) for name in _VARIABLES}
    try:
        process = _start(command, body, variables, subprocess.PIPE if target.address else None)
    except OSError as error:
        return error.strerror or type(error).__name__
    deadline = asyncio.get_running_loop().time() + _DEADLINE
    while process.poll() is None:
        if asyncio.get_running_loop().time() > deadline:
            process.kill()
            process.wait()
            return f"it took more than {_DEADLINE:.0f} s"
        await asyncio.sleep(0.05)
    said = _said(process)
    if process.returncode == 0:
        return ""
    return said if target.address and said else f"it ended with status {process.returncode}"


def _as_variable(value: Any) -> str:
    return str(value).replace("\0", "").encode("utf-8", "replace").decode()


def _start(command: list[str], body: bytes, variables: dict[str, str], said: int | None) -> subprocess.Popen[bytes]:
    """Start it with ``body`` on its standard input, which a file holds: nothing waits for a slow reader."""
    with tempfile.TemporaryFile() as content:
        content.write(body)
        content.seek(0)
        return subprocess.Popen(
            command,
            stdin=content,
            stdout=subprocess.DEVNULL,
            stderr=said,
            env={**os.environ, **variables},
        )


def _said(process: subprocess.Popen[bytes]) -> str:
    if process.stderr is None:
        return ""
    with suppress(OSError), process.stderr as stream:
        lines = stream.read().decode(errors="replace").strip().splitlines()
        return lines[-1][:_LONGEST_REASON] if lines else ""
    return ""
