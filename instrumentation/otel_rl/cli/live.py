"""``otel-rl live [DIR] [--run ID] [--port N] [--open] [--notify URL|COMMAND] [--no-page] [--until-end] [--demo]``."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING

from otel_rl.cli import complain, run_directory
from otel_rl.store.reader.errors import UnusableInput

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from otel_rl.live.notifications import Notifier, NotifyTarget
    from otel_rl.live.run_index import ListedRun, RunIndex
    from otel_rl.live.run_watch import RunWatch
    from otel_rl.live.server import LiveServer

_DESCRIPTION = """\
Follow a run while it is written: a page on this machine with findings as they come, steps by phase, curves, ranks,
tools and trajectories. It needs no other server and no network. Of the run it changes nothing; into the folder of one
that has ended it puts a summary.json, for `otel-rl runs`."""

_EPILOG = """\
DIR can be the data directory (the page lists its runs, the live ones first) or one run in it, which --run names too.
The address, which has a token that is new with each start, is printed on stdout, everything else on stderr. From
another machine:
`ssh -L 8321:127.0.0.1:8321 MACHINE`, then open the address there.

--notify gets a finding that is critical, a hang and a death, each once: an address gets a POST of JSON whose `text` is
what Slack shows; a command gets it on stdin, and its parts as OTEL_RL_NOTIFY_*. Nothing is sent without it. It sends
for the runs that are live, or for the one of --run.

Exit status: 0 stopped (Ctrl-C), or with --until-end the run has ended; 2 it could not follow or listen.
"""

#: Seconds between two looks for runs to notify of, and for which a run has to be over.
_LOOK, _OVER = 5.0, 10.0
#: Most live runs of which something is sent.
_MOST_RUNS = 8


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    run_directory.configure(parser)
    parser.add_argument("--host", default="127.0.0.1", help="a loopback address to listen on (default: 127.0.0.1)")
    parser.add_argument(
        "--port", type=_port, metavar="N", help="port to listen on, 0 for any (default: 8321, or the next)"
    )
    parser.add_argument("--open", action="store_true", help="open the page in the browser")
    parser.add_argument(
        "--notify",
        action="append",
        default=[],
        metavar="URL|COMMAND",
        help="post what is critical, a hang or a death there, or run the command with it; can be given several times",
    )
    parser.add_argument("--no-page", action="store_true", help="serve no page: for --notify alone")
    parser.add_argument("--until-end", action="store_true", help="end when the run has ended")
    parser.add_argument(
        "--demo", action="store_true", help="follow a small job of its own, which ends with the command"
    )


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:  # noqa: PLR2004 - all ports
        raise argparse.ArgumentTypeError(f"{text!r} is no port; give a number from 0 to 65535")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C, or until the run has ended."""
    from otel_rl.live import demo, notifications, server  # noqa: PLC0415 - only this command needs the extra

    if arguments.no_page and not arguments.notify:
        return complain("live", "--no-page is for --notify: without both there is nothing to do")
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        targets = list(map(notifications.NotifyTarget.of, arguments.notify))
        job: AbstractContextManager[Path]
        job = demo.running() if arguments.demo else nullcontext(run_directory.choose_run_directory(arguments))
        with job as directory:
            return asyncio.run(_LiveSession(arguments, directory.absolute(), targets).serve())
    except (notifications.UnusableTarget, server.CannotServe, demo.NoDemo) as error:
        return complain("live", str(error))


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


class _LiveSession:
    """One call of the command."""

    def __init__(self, arguments: argparse.Namespace, directory: Path, targets: list[NotifyTarget]) -> None:
        from otel_rl.live.notifications import Notifier  # noqa: PLC0415 - as above
        from otel_rl.live.run_index import RunIndex  # noqa: PLC0415 - as above
        from otel_rl.live.server import LiveServer  # noqa: PLC0415 - as above

        self._arguments = arguments
        self._index: RunIndex = RunIndex(directory)
        self._notifier: Notifier = Notifier(targets, self._address)
        self._server: LiveServer = LiveServer(self._index, self._notifier.tell)
        self._has_targets = bool(targets)
        self._over_since: float | None = None

    def _address(self, name: str) -> str:
        return "" if self._arguments.no_page else self._server.address_without_token(name)

    async def serve(self) -> int:
        """Listen, and follow what has to be followed, until the end."""
        own = asyncio.current_task()
        assert own is not None  # noqa: S101 - it is called in one
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, own.cancel)
        try:
            if not self._arguments.no_page:
                self._listen()
            while not await self._is_over():  # noqa: ASYNC110 - files are looked at, which tell nobody
                await asyncio.sleep(_LOOK)
        except asyncio.CancelledError:
            # Ctrl-C.
            return 0
        finally:
            await self._server.close()
            await self._notifier.close()
        return 0

    def _listen(self) -> None:
        asked_for = self._asked_for()
        said = self._server.listen(self._arguments.host, self._arguments.port)
        if said:
            print(f"otel-rl live: {said}", file=sys.stderr)
        address = self._server.address_of(asked_for) if asked_for is not None else self._server.address
        print(address, flush=True)
        if self._arguments.open:
            import webbrowser  # noqa: PLC0415 - rarely asked for

            webbrowser.open(address)

    def _asked_for(self) -> str | None:
        """Return the run that ``--run`` or DIR names; say that there is no run yet, which may come.

        Raises:
            UnusableInput: the folder is no folder, or the wanted run is not in it.
        """
        if self._index.directory.is_file():
            raise UnusableInput(f"{self._index.directory} is a file; give the folder it lies in")
        try:
            runs = self._index.runs()
        except UnusableInput as error:
            print(f"otel-rl live: no run yet: {error}", file=sys.stderr)
            return None
        if self._arguments.run is not None:
            return self._wanted()[0].name
        return runs[0].name if len(runs) == 1 and runs[0].path == self._index.directory else None

    def _wanted(self) -> list[ListedRun]:
        """Return the runs that are followed although nobody looks at them.

        Raises:
            UnusableInput: the one of ``--run`` is not there.
        """
        runs = self._index.runs()
        name = self._arguments.run
        if name is not None:
            found = [run for run in runs if run.name == name] or [run for run in runs if run.name.startswith(name)]
            if not found:
                raise UnusableInput(f"{self._index.directory} holds no run {name}")
            return found[:1]
        if self._arguments.until_end:
            return runs[:1]
        return [run for run in runs if run.is_live][:_MOST_RUNS]

    async def _is_over(self) -> bool:
        """Follow what has to be followed; return whether to end."""
        if not self._has_targets and not self._arguments.until_end:
            return False
        try:
            wanted = self._wanted()
        except UnusableInput:
            return False
        watches = [watch for run in wanted if (watch := self._follow(run)) is not None]
        self._server.kept = {run.name for run in wanted}
        if not self._arguments.until_end or not watches:
            return False
        now = time.monotonic()
        if not all(watch.standing.is_over or watch.is_gone for watch in watches):
            self._over_since = None
            return False
        self._over_since = now if self._over_since is None else self._over_since
        return now - self._over_since >= _OVER and all(watch.is_shown for watch in watches)

    def _follow(self, run: ListedRun) -> RunWatch | None:
        try:
            return self._server.watch(run)
        except (UnusableInput, OSError):
            # It may be there again with the next look.
            return None
