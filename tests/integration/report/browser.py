"""Headless Chromium, driven over its DevTools protocol: opens a file, reports what the console said, evaluates."""

from __future__ import annotations

import atexit
import base64
import json
import shutil
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from websockets.sync.client import connect

if TYPE_CHECKING:
    from typing_extensions import Self
    from websockets.sync.client import ClientConnection

EXECUTABLE = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-backgrounding-occluded-windows",
    "--disable-component-update",
    "--disable-renderer-backgrounding",
    "--disable-sync",
    "--remote-debugging-port=0",
)
_TIMEOUT = 60.0


class _Chromium:
    """The one process of all browsers of this process, from the first one on."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._address = ""

    def begin_page(self, width: int, height: int) -> tuple[str, str]:
        """Open a window with cookies and a cache of its own; its context and the address that drives it."""
        if self._process is None or self._process.poll() is not None:
            self._start()
        context = self._call("Target.createBrowserContext")["browserContextId"]
        window = {"url": "about:blank", "browserContextId": context, "width": width, "height": height}
        target = self._call("Target.createTarget", **window)["targetId"]
        return context, f"{self._address.split('/devtools/')[0]}/devtools/page/{target}"

    def end_page(self, context: str) -> None:
        self._call("Target.disposeBrowserContext", browserContextId=context)

    def _start(self) -> None:
        assert EXECUTABLE is not None
        profile = tempfile.TemporaryDirectory(prefix="otel-rl-chromium-", ignore_cleanup_errors=True)
        command = [EXECUTABLE, *_FLAGS, f"--user-data-dir={profile.name}", "about:blank"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        atexit.register(_stop, process, profile)
        self._process, self._address = process, _listening(process, Path(profile.name, "DevToolsActivePort"))

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        # Between two pages nothing of it is left in this process.
        with _connected(self._address) as socket:
            socket.send(json.dumps({"id": 1, "method": method, "params": parameters}))
            while (answer := json.loads(socket.recv(_TIMEOUT))).get("id") != 1:
                pass
        assert "error" not in answer, (method, answer)
        result: dict[str, Any] = answer["result"]
        return result


def _listening(process: subprocess.Popen[bytes], file: Path) -> str:
    """Await the port that Chromium has chosen; its address."""
    deadline = time.monotonic() + _TIMEOUT
    while not file.exists() or len(lines := file.read_text().splitlines()) < 2:
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"chromium does not listen; it has ended with {process.poll()}")
        time.sleep(0.05)
    return f"ws://127.0.0.1:{lines[0]}{lines[1]}"


def _connected(address: str) -> ClientConnection:
    return connect(address, max_size=None, compression=None, proxy=None)


def _stop(process: subprocess.Popen[bytes], profile: tempfile.TemporaryDirectory[str]) -> None:
    process.terminate()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    profile.cleanup()


_chromium = _Chromium()


class Browser:
    """``with Browser() as page: page.open(file)``: a window that knows nothing of earlier ones."""

    def __init__(self, *, width: int = 1280, height: int = 900) -> None:
        self.problems: list[str] = []
        self.requested: list[str] = []
        self._size = (width, height)
        self._next_id = 0
        self._open = ExitStack()

    def __enter__(self) -> Self:
        context, address = _chromium.begin_page(*self._size)
        self._open.callback(_chromium.end_page, context)
        try:
            self._socket = self._open.enter_context(_connected(address))
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.call(f"{domain}.enable")
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One protocol call; events that arrive meanwhile are taken in."""
        self._next_id += 1
        self._socket.send(json.dumps({"id": self._next_id, "method": method, "params": parameters}))
        deadline = time.monotonic() + _TIMEOUT
        while time.monotonic() < deadline:
            message = json.loads(self._socket.recv(_TIMEOUT))
            if message.get("id") == self._next_id:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self._note(message)
        raise TimeoutError(method)

    def _note(self, message: dict[str, Any]) -> None:
        parameters = message.get("params", {})
        if message["method"] == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(parameters["exceptionDetails"])[:2000])
        elif message["method"] == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.problems.append(parameters["entry"]["text"])
        elif message["method"] == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "assert", "warning"):
            self.problems.append(" ".join(str(one.get("value", one)) for one in parameters["args"]))
        elif message["method"] == "Network.requestWillBeSent":
            self.requested.append(parameters["request"]["url"])

    def open(self, file: Path) -> None:
        """Load a file and wait until it is complete and its charts, if any, are drawn."""
        self.call("Page.navigate", url=file.resolve().as_uri())
        self.wait_for(
            "document.readyState === 'complete' && location.protocol === 'file:' && "
            "(!document.querySelector('figure') || document.documentElement.dataset.charts === 'drawn')"
        )

    def wait_for(self, condition: str) -> None:
        """Wait until a JavaScript expression is true."""
        deadline = time.monotonic() + _TIMEOUT
        while not self.evaluate(f"!!({condition})"):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{condition}; console: {self.problems}")
            time.sleep(0.05)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(json.dumps(result["exceptionDetails"])[:2000])
        return result["result"].get("value")

    def dark(self, on: bool = True) -> None:
        """Prefer the dark colour scheme."""
        features = [{"name": "prefers-color-scheme", "value": "dark" if on else "light"}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def screenshot(self, file: Path, height: int | None = None) -> None:
        """The page as PNG, whole unless ``height`` is given."""
        width = self._size[0]
        full = height or self.evaluate("document.documentElement.scrollHeight")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=full, deviceScaleFactor=1, mobile=False)
        self.wait_for("!window.Bokeh || Bokeh.documents.every((one) => one.is_idle)")
        time.sleep(0.3)
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
