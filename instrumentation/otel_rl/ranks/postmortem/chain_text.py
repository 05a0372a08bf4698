"""A chain of waits as one sentence, and as JSON."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from otel_rl.semconv.attributes import RlCallKindValues as Kind

if TYPE_CHECKING:
    from otel_rl.flight_recorder.waiting import WaitingCall
    from otel_rl.ranks.postmortem.chains import ChainLink, WaitChain

_NANOSECONDS = 1e9
#: What a process does while a call of a kind is open.
_WAITS = {
    Kind.TOOL: "waits in tool `{}`",
    Kind.MODEL: "waits for model call `{}`",
    Kind.ENGINE: "is in engine call `{}`",
    Kind.SERVICE: "waits for service `{}`",
    Kind.REQUEST: "answers `{}`",
}
#: The same of what is over.
_PAST = {"waits": "had waited", "is": "was", "answers": "was to answer"}


def sentence(chain: WaitChain, at: int) -> str:
    """Return who waits for whom, and at what that ends since when; ``at`` (ns) is now, or the last sign of the run."""
    end, here = chain.end, chain.links[0].process.lifetime
    parts = [_first(chain)]
    for link in chain.links[1:]:
        is_elsewhere, here = link.process.lifetime != here, link.process.lifetime
        parts.append(
            f", where {link.process.label} {_waits(chain, link.call)}"
            if is_elsewhere
            else f", which {_waits(chain, link.call)}"
        )
    parts.append(_where(end))
    parts.append(f" since {_clock(end.call.since)} UTC ({_length(chain, at)})")
    parts.append(_listener(chain))
    if chain.others:
        more = "is open" if chain.others == 1 else "are open" if chain.is_meanwhile else ""
        parts.append(
            f"; {chain.others} more {more}" if more else f"; it {_tense(chain, 'waits')} for {chain.others} more"
        )
    if chain.fate:
        parts.append(f"; {chain.fate}")
    return "".join(parts)


def _length(chain: WaitChain, at: int) -> str:
    """Return how long the last call has been open; of a process that has ended, until it was seen last."""
    process, call = chain.end
    until = min(at, process.seen or at) if chain.fate else at
    return f"{'at least ' if chain.fate else ''}{max(until - call.since, 0) / _NANOSECONDS:.0f} s"


def _first(chain: WaitChain) -> str:
    """Return who waits for the first call."""
    state, phases, (process, call) = chain.rank, chain.phases, chain.links[0]
    if state is None:
        return f"{process.label}{f', in rollout {call.rollout},' if call.rollout else ''} {_waits(chain, call)}"
    place = f"`{phases[-1]}` of step {state.step}" if phases else f"step {state.step}"
    is_own = process.lifetime == state.ring.lifetime
    if chain.is_meanwhile:
        who = f"rollout {call.rollout}{'' if is_own else f' in {process.label}'}" if call.rollout else process.label
        return f"{state.label} {_tense(chain, 'is')} in {place}; meanwhile {who} {_waits(chain, call)}"
    if not call.rollout:
        who = "it" if is_own else process.label
        return f"{state.label} {_tense(chain, 'waits')} in {place}, where {who} {_waits(chain, call)}"
    elsewhere = "" if is_own else f" in {process.label}"
    waits = _tense(chain, "waits")
    return f"{state.label} {waits} in {place} for rollout {call.rollout}, which{elsewhere} {_waits(chain, call)}"


def _tense(chain: WaitChain, verb: str) -> str:
    return _PAST.get(verb, verb) if chain.fate else verb


def _waits(chain: WaitChain, call: WaitingCall) -> str:
    verb, _, what = _WAITS.get(call.kind, "waits in `{}`").partition(" ")
    words = f"{_tense(chain, verb)} {what.format(call.name)}"
    at = f" at {call.address}:{call.port}" if call.address and call.port else ""
    return f"{words}{at}{f' inside tool `{call.tool}`' if call.tool else ''}"


def _where(link: ChainLink) -> str:
    call = link.call
    return f", in {call.function} ({call.file.rpartition('/')[2]}:{call.line})," if call.function else ""


def _clock(nanoseconds: int) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(nanoseconds / _NANOSECONDS))


def _listener(chain: WaitChain) -> str:
    found = chain.listener
    if found is None:
        return ""
    stopped = ", stopped by a signal" if found.is_stopped else ""
    return f"; there listens process {found.pid} ({found.program}{stopped})"


def as_json(chain: WaitChain, at: int) -> dict[str, Any]:
    """Return the same, with moments in ns since the epoch."""
    listener = chain.listener
    return {
        "rank": chain.rank.ring.rank if chain.rank is not None else None,
        "step": chain.rank.step if chain.rank is not None else None,
        "phases": chain.phases,
        "calls": [
            {
                "pid": link.process.lifetime.pid,
                "host": link.process.host,
                "kind": link.call.kind,
                "name": link.call.name,
                "rollout": link.call.rollout or None,
                "trace": link.call.trace or None,
                "server": f"{link.call.address}:{link.call.port}" if link.call.address else None,
                "function": link.call.function or None,
                "file": link.call.file or None,
                "line": link.call.line or None,
                "since_unix_nano": link.call.since,
                "hangs": link.call.hangs,
            }
            for link in chain.links
        ],
        "listener": listener._asdict() if listener is not None else None,
        "others": chain.others,
        "is_meanwhile": chain.is_meanwhile,
        "text": sentence(chain, at),
    }
