"""What the producer API does in a process that can load no more of our modules: the program goes on."""

from __future__ import annotations

import subprocess
import sys

import pytest

_USES_ALL = """
import otel_rl
for decorate in (
    otel_rl.tool("t"), otel_rl.llm("m"), otel_rl.rollout(), otel_rl.phase("sample"), otel_rl.span("s"),
    otel_rl.reward_function("r"),
):
    def ask(x): return x + 1
    assert decorate(ask) is ask and ask(1) == 2
class Agent:
    def __call__(self): return 3
for decorate in (otel_rl.rollout(), otel_rl.reward_function("r")):
    assert decorate(Agent) is Agent and Agent()() == 3
"""
_NO_DESCRIPTOR = """
import os, resource
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
held = []
try:
    while True: held.append(os.open("/dev/null", os.O_RDONLY))
except OSError: pass
"""
_NO_IMPORT = """
def refuse(event, arguments):
    if event == "import" and arguments[0].startswith("otel_rl"): raise RuntimeError("no import of " + arguments[0])
sys.addaudithook(refuse)
"""
_TELEMETRY = """
import sys, otel_rl.core.guard, otel_rl.process.launch
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
trace.set_tracer_provider(TracerProvider())
"""


def _run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_without_descriptors_and_without_telemetry_functions_stay_undecorated_and_nothing_is_said():
    assert _run("import otel_rl" + _NO_DESCRIPTOR + _USES_ALL) == ""


@pytest.mark.parametrize("no_more", [_NO_DESCRIPTOR, _NO_IMPORT], ids=["no descriptor", "audit hook"])
def test_where_decorators_cannot_be_loaded_that_is_said_once(no_more):
    (line,) = _run(_TELEMETRY + no_more + _USES_ALL).splitlines()
    assert line.startswith("otel-rl: decorators could not be loaded (")
    assert line.endswith("what they decorate is not recorded")


def test_a_decorator_works_again_when_there_are_descriptors_again():
    again = """
for one in held: os.close(one)
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
decorated = otel_rl.tool("t")(ask)
assert decorated is not ask and decorated(1) == 2
"""
    _run(_TELEMETRY + _NO_DESCRIPTOR + _USES_ALL + again)


def test_without_descriptors_a_flush_delivers_nothing_and_raises_nothing():
    (line,) = _run(_TELEMETRY + _NO_DESCRIPTOR + "assert otel_rl.flush() is False").splitlines()
    assert line.startswith("otel-rl: flush() could not be loaded (OSError")


@pytest.mark.parametrize(
    ("module", "use"),
    [("otel_rl.api.decorator", "otel_rl.tool('t')(len)"), ("otel_rl.api.operations", "otel_rl.trace_id()")],
)
def test_what_a_signal_handler_of_the_program_raises_during_an_import_reaches_the_program(module, use):
    timeout = f"""
import os, signal
class SlowFileSystem:
    def find_spec(self, name, path, target=None):
        if name == {module!r}: os.kill(os.getpid(), signal.SIGALRM)
sys.meta_path.insert(0, SlowFileSystem())
class Timeout(Exception): pass
def handler(*_): raise Timeout
signal.signal(signal.SIGALRM, handler)
try: {use}
except Timeout: print("reached", file=sys.stderr)
"""
    assert _run(_TELEMETRY + timeout) == "reached\n"
