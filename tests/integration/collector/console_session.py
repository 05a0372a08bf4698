"""Commands of a page, typed into terminals: what a block shows after a command has to be in what the command says."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import NamedTuple

from collector_process import READY, START_SECONDS, free_ports, wait_for

COMMAND_SECONDS = 300
_BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SECTION = re.compile(r"^## (.*)$", re.MULTILINE)
_PORT = re.compile(r"(?<![\d.])(?:4317|4318|8888|13133|[12]4\d{3})(?!\d)")
_DEFAULTS = {
    "OTEL_RL_COLLECTOR_GRPC_PORT": "4317",
    "OTEL_RL_COLLECTOR_HTTP_PORT": "4318",
    "OTEL_RL_COLLECTOR_METRICS_PORT": "8888",
    "OTEL_RL_COLLECTOR_HEALTH_ENDPOINT": "127.0.0.1:13133",
}


class Step(NamedTuple):
    """A command and the lines that the page shows after it."""

    command: str
    shown: list[str]


def sections(page: str) -> dict[str, list[Step]]:
    """The sections of a page that show commands, each with its commands in order."""
    titles = list(_SECTION.finditer(page))
    found = {}
    for number, title in enumerate(titles):
        end = titles[number + 1].start() if number + 1 < len(titles) else len(page)
        steps = [step for block in _BLOCK.findall(page[title.end() : end]) for step in _steps(block)]
        if steps:
            found[title[1]] = steps
    return found


def _steps(block: str) -> list[Step]:
    steps: list[Step] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            steps.append(Step(line[2:], []))
        elif line.startswith("> "):
            steps[-1] = Step(f"{steps[-1].command}\n{line[2:]}", [])
        elif line.strip():
            steps[-1].shown.append(line)
    return steps


class Session:
    """One section: a folder, the variables that its commands export, ports of its own, and the collectors it starts."""

    def __init__(self, folder: Path, program: Path) -> None:
        self.folder = folder
        self.ports: dict[str, str] = {}
        self.collectors: list[subprocess.Popen[bytes]] = []
        tools = folder / "bin"
        tools.mkdir()
        (tools / "otelcol-rl").symlink_to(program)
        self.defaults = {name: self._own_ports(value) for name, value in _DEFAULTS.items()}
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("OTEL_")},
            **self.defaults,
            "PATH": f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "OTEL_RL_CACHE_DIR": str(program.parents[2]),
        }

    def _own_ports(self, text: str) -> str:
        return _PORT.sub(lambda found: self.ports.setdefault(found[0], str(free_ports(1)[0])), text)

    def type(self, step: Step) -> None:
        """Run one command and check what it says."""
        command = self._own_ports(step.command)
        if self._exported(command):
            return
        if re.match(r"(\w+=\S* )*otel-rl collector run ", command):
            said = self._start(command)
        else:
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=self.folder,
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=COMMAND_SECONDS,
                check=False,
            )
            assert done.returncode == 0, f"$ {command}\n{done.stdout}"
            said = done.stdout
        for line in step.shown:
            assert self._own_ports(line) in said, f"$ {command}\n{said}\ndoes not say: {line}"

    def _exported(self, command: str) -> bool:
        words = shlex.split(command)
        if words[0] == "export":
            self.environment |= dict(word.split("=", 1) for word in words[1:])
        elif words[0] == "unset":
            self.environment = {name: value for name, value in self.environment.items() if name not in words[1:]}
            self.environment = {**self.defaults, **self.environment}
        return words[0] in {"export", "unset"}

    def _start(self, command: str) -> str:
        given = dict(re.findall(r"(OTEL_RL_COLLECTOR_\w+)=(\S+) ", command))
        health = {**self.environment, **given}["OTEL_RL_COLLECTOR_HEALTH_ENDPOINT"]
        log = self.folder / f"collector-{len(self.collectors)}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["bash", "-c", f"exec env {command}"],
                cwd=self.folder,
                env=self.environment,
                stdout=output,
                stderr=output,
            )
        self.collectors.append(process)

        def healthy() -> bool:
            assert process.poll() is None, log.read_text()
            try:
                with urllib.request.urlopen(f"http://{health}/", timeout=5) as answer:
                    return bool(answer.status == 200) and READY in log.read_text()
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                return False

        wait_for(healthy, f"$ {command} is healthy", START_SECONDS)
        return log.read_text()

    def close(self) -> list[int]:
        """Stop what was started, the last first, as Ctrl-C does; the exit codes."""
        for process in reversed(self.collectors):
            process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=300)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        return [process.returncode for process in self.collectors]
