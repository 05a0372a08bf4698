"""The GPUs of the node by NVML, where ``nvidia-ml-py`` (module ``pynvml``) is installed."""

from __future__ import annotations

import importlib
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otel_rl.core import instrumentor_status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

#: The driver's node: without it the library is not even imported.
DRIVER = Path("/dev/nvidiactl")
STATUS = "nvml"
#: What can be asked of a device: shares from 0 to 1, bytes, watts, degrees Celsius.
QUESTIONS: Mapping[str, Callable[[Any, Any], float]] = {
    "utilization": lambda library, handle: library.nvmlDeviceGetUtilizationRates(handle).gpu / 100,
    "used": lambda library, handle: library.nvmlDeviceGetMemoryInfo(handle).used,
    "memory": lambda library, handle: library.nvmlDeviceGetMemoryInfo(handle).total,
    "power": lambda library, handle: library.nvmlDeviceGetPowerUsage(handle) / 1000,
    "temperature": lambda library, handle: library.nvmlDeviceGetTemperature(handle, library.NVML_TEMPERATURE_GPU),
}


class Gpus:
    """Opens NVML at the first question, and gives it up where it fails."""

    def __init__(self, driver: Path = DRIVER) -> None:
        self._driver = driver
        self._library: Any = None
        self._handles: list[Any] | None = None

    def ask(self, question: str) -> Iterator[tuple[str, float]]:
        """Yield number and answer of each device that has one; for our threads: the driver may take ms."""
        if self._handles is None:
            self._handles = []
            self._open()
        for number, handle in enumerate(self._handles):
            # Parts of a divided GPU do not know all; NVMLError is a class of the library.
            with suppress(Exception):
                yield str(number), QUESTIONS[question](self._library, handle)

    def _open(self) -> None:
        if not self._driver.exists() or find_spec("pynvml") is None:
            return
        try:
            library = importlib.import_module("pynvml")
            library.nvmlInit()
            self._handles = [library.nvmlDeviceGetHandleByIndex(index) for index in range(library.nvmlDeviceGetCount())]
        except Exception as error:  # noqa: BLE001 - whatever the driver or the library does not like
            reason = f"NVML cannot be used ({type(error).__name__}: {error}): no hw.gpu metrics"
            instrumentor_status.report(STATUS, instrumentor_status.SKIPPED, reason)
        else:
            self._library = library
