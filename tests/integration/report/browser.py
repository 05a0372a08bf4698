"""Headless Chromium, driven over its DevTools protocol: opens a file, reports what the console said, evaluates."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from websockets.sync.client import connect

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Self

EXECUTABLE = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
)
_TIMEOUT = 60.0


class Browser:
    """``with Browser(tmp_path) as page: page.open(file)``."""

    def __init__(self, profile: Path, *, width: int = 1280, height: int = 900) -> None:
        self.problems: list[str] = []
        self.requested: list[str] = []
        self._size = (width, height)
        self._profile = profile
        self._next_id = 0
        self._open = ExitStack()

    def __enter__(self) -> Self:
        assert EXECUTABLE is not None
        width, height = self._size
        command = [
            EXECUTABLE,
            *_FLAGS,
            f"--window-size={width},{height}",
            f"--user-data-dir={self._profile}",
            "about:blank",
        ]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            connection = connect(self._page_address(), max_size=None, compression=None, proxy=None)
            self._socket = self._open.enter_context(connection)
        except BaseException:
            self._stop()
            raise
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()
        self._stop()

    def _stop(self) -> None:
        self._process.terminate()
        try:
            self._process.communicate(timeout=15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def _page_address(self) -> str:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if line.startswith("DevTools listening on "):
                browser = line.split()[-1]
                break
        else:
            raise RuntimeError(f"chromium ended with {self._process.wait()} before it listened")
        with connect(browser, max_size=None, compression=None, proxy=None) as socket:
            socket.send(json.dumps({"id": 1, "method": "Target.getTargets"}))
            while (answer := json.loads(socket.recv(_TIMEOUT))).get("id") != 1:
                pass
        target = next(one["targetId"] for one in answer["result"]["targetInfos"] if one["type"] == "page")
        return f"{browser.split('/devtools/')[0]}/devtools/page/{target}"

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
