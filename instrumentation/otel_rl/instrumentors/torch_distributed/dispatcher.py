"""Kernels in PyTorch's dispatcher that see the collectives which no method of the process group sees.

DDP's reducer, functional collectives, DTensor and compiled code issue theirs in C++. All of them pass an operator of
the library ``c10d``. A Python kernel at the key ``BackendSelect`` runs above every backend, and hands the call on.
Callers that exclude Autograd reach it too: the key is always in the set.

What issued a collective: a method of the process group marks its thread, so it is Python, and counted there. So does a
kernel of the library ``_c10d_functional``: it is functional. Otherwise it is C++ code, mostly the reducer.

With the kernels a collective takes 10 to 80 microseconds longer. They may run below a mutex of the reducer: they take
no lock and enter nothing of the SDK. A signal handler of the program may run inside them, see docs/collectives.md.
"""

from __future__ import annotations

import sys
import threading
from _thread import get_ident
from functools import partial
from typing import TYPE_CHECKING, Any

from otel_rl.collectives.recorder import MAXIMUM_PENDING, Slot, clock
from otel_rl.core.guard import guard
from otel_rl.instrumentors.torch_distributed.operations import OPERATORS, OPERATORS_OF_DDP, Operator
from otel_rl.semconv.attributes import TorchDistributedSourceValues as Source

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from otel_rl.collectives.recorder import CollectiveRecorder

    Function = Callable[..., Any]

_COLLECTIVES, _FUNCTIONAL = "c10d", "_c10d_functional"
#: The functional operator that waits; all others issue a collective.
_WAIT = "wait_tensor"
_KEY = "BackendSelect"
_LISTS = frozenset({list, tuple})


class _Issuer(threading.local):
    """The state of this thread."""

    source: str = Source.REDUCER
    #: The functional collective that is being issued.
    issued: _Issued | None = None
    #: The backward pass that this thread runs, or ran last.
    backward: _Backward | None = None


class _Issued:
    """What waits for a collective need of it: its slot, and its handle of the flight recorder.

    No named tuple: Dynamo would look at its constructor, which is not in a file of ours.
    """

    __slots__ = ("launch", "slot")

    def __init__(self, slot: Slot, launch: Any) -> None:
        self.slot = slot
        self.launch = launch


class _Backward:
    """A backward pass in which the reducer has issued a collective; ``latest`` is the last one."""

    __slots__ = ("latest", "task")

    def __init__(self, task: int, latest: _Issued) -> None:
        self.task = task
        self.latest = latest


class DispatcherKernels:
    """Puts the kernels on, and off with the instrumentor.

    Neither is safe while another thread is about to call one of the operators: the dispatcher takes no lock. So each
    goes on once, and nothing but :meth:`remove` takes them off (torch 2.13, ``OperatorEntry``). Those of DDP go on when
    it wraps a model, the others with the process group, or at the end of a step.

    ``on_install`` runs before the first collective is counted.
    """

    def __init__(self, recorder: CollectiveRecorder, on_install: Callable[[], None] = lambda: None) -> None:
        self._on_install = on_install
        self._recorder = recorder
        self._issuer = _Issuer()
        #: Threads in which a method of the process group is issuing a collective.
        self._by_python: set[int] = set()
        self._libraries: list[Any] = []
        #: Operators of ``c10d`` that have a kernel.
        self._covered: set[str] = set()
        #: Address of the result of a functional collective -> what is known of it. What nobody waits for must not pile
        #: up.
        self._results: dict[int, _Issued] = {}
        self._works = False

    @property
    def installed(self) -> bool:
        """True while all kernels are on."""
        return len(self._covered) == len(OPERATORS)

    def covers(self, operation: str) -> bool:
        """Return whether a collective of this operation passes a kernel."""
        return any(known.name in self._covered for known in OPERATORS if known.operation == operation)

    def probe(self) -> None:
        """Try on an operator of our own whether kernels work in this PyTorch.

        Not documented: ``with_keyset``, ``redispatch_boxed`` and ``ProcessGroup.unbox`` (torch 2.4 to 2.13).

        Raises:
            Exception: whatever went wrong; the kernels would not work.
        """
        torch: Any = sys.modules["torch"]
        library = torch.library.Library("otel_rl_probe", "DEF")
        reached: list[Any] = []
        try:
            library.define("pass_on(Tensor given) -> Tensor")
            library.impl("pass_on", torch.clone, "CompositeExplicitAutograd")
            operator = torch.ops.otel_rl_probe.pass_on.default
            library.impl("pass_on", self._kernel(operator, reached.append, _nothing, ()), _KEY, with_keyset=True)
            operator(torch.empty(0))
        finally:
            library._destroy()  # noqa: SLF001 - as torch.library does itself
            vars(torch.ops).pop("otel_rl_probe", None)
        if not reached:
            raise RuntimeError("PyTorch does not call our kernel")
        torch.distributed.ProcessGroup.unbox  # noqa: B018 - asks whether there is one
        for known in OPERATORS:
            _positions(_operator(torch, _COLLECTIVES, known.name), known)
        self._works = True

    def install(self) -> None:
        """Put all kernels on.

        Raises:
            Exception: as :meth:`probe`; nothing has been changed.
        """
        self._put_on(OPERATORS)

    def install_for_ddp(self) -> None:
        """Put on those for what DDP issues.

        What Python issues passes them too, and takes some ten microseconds longer for it. A GRPO step gathers metrics
        thirty times, and sums up gradients once.

        Raises:
            Exception: as :meth:`probe`; nothing has been changed.
        """
        self._put_on([known for known in OPERATORS if known.name in OPERATORS_OF_DDP])

    def _put_on(self, operators: Iterable[Operator]) -> None:
        missing = {known.name: known for known in operators if known.name not in self._covered}
        if not missing:
            return
        torch: Any = sys.modules["torch"]
        if not self._works:
            self.probe()
        is_first = not self._libraries
        if is_first:
            self._on_install()
        libraries = [torch.library.Library(name, "IMPL") for name in (_COLLECTIVES, _FUNCTIONAL)]
        self._libraries += libraries
        collectives, functional = libraries
        try:
            for name, known in missing.items():
                # First: what Python issues is counted there.
                self._recorder.mark(known.operation, self._by_python)
                operator = _operator(torch, _COLLECTIVES, name)
                collectives.impl(name, self._collective(torch, operator, known), _KEY, with_keyset=True)
            # With the first ones: a functional collective would look like one of DDP.
            for name in _functional_names(torch) if is_first else ():
                make = self._waiting if name == _WAIT else self._issuing
                functional.impl(name, make(_operator(torch, _FUNCTIONAL, name)), _KEY, with_keyset=True)
        except BaseException:
            self._take_off(libraries)
            raise
        self._covered.update(missing)

    def remove(self) -> None:
        """Take the kernels off."""
        self._covered.clear()
        self._take_off(list(self._libraries))
        self._results.clear()

    def _take_off(self, libraries: list[Any]) -> None:
        for library in libraries:
            self._libraries.remove(library)
            library._destroy()  # noqa: SLF001 - as torch.library does itself
        for operation in {known.operation for known in OPERATORS}:
            if not self.covers(operation):
                self._recorder.mark(operation, None)

    # -- kernels -----------------------------------------------------------------------------------------------

    def _collective(self, torch: Any, operator: Any, known: Operator) -> Function:
        group, payload = _positions(operator, known)
        count = self._recorder.counting
        counts = {source: count(known.operation, source) for source in (Source.REDUCER, Source.FUNCTIONAL)}
        issuer, unbox = self._issuer, torch.distributed.ProcessGroup.unbox
        in_backward, on_backward_end = torch._C._current_graph_task_id, self._on_backward_end  # noqa: SLF001
        records = self._recorder.flight_records
        begin = _nothing if records is None else records.launch_recorder(known.operation)

        def before(args: tuple[Any, ...]) -> Any:
            return None if payload is not None and _is_fake(args[payload]) else begin(unbox(args[group]))

        def after(args: tuple[Any, ...], record: Any, started: float, elapsed: float, failed: bool) -> None:
            if records is not None and record is not None:
                records.end(record, failed)
            message = None if payload is None else args[payload]
            if failed or _is_fake(message):
                return
            source = issuer.source
            issued = _Issued(counts[source](unbox(args[group]), message, started, elapsed), record)
            if source == Source.FUNCTIONAL:
                issuer.issued = issued
                return
            task, backward = in_backward(), issuer.backward
            if backward is not None and backward.task == task:
                backward.latest = issued
            elif task != -1:
                issuer.backward = backward = _Backward(task, issued)
                on_backward_end(torch, backward)

        return self._kernel(operator, before if records is not None else _nothing, after, self._by_python)

    @staticmethod
    def _kernel(operator: Any, before: Function, after: Function, by_python: Collection[int]) -> Function:
        """Run ``before(args)``, hand the call on, and run ``after(args, what before gave, start, seconds, failed)``.

        In the threads ``by_python`` the call is handed on only.
        """
        redispatch, key, now, thread = _redispatch(operator), _key(), clock, get_ident
        site = guard(f"collectives.kernel.{operator.name()}")

        def kernel(keys: Any, *args: Any, **kwargs: Any) -> Any:
            if thread() in by_python:
                return redispatch(keys.remove(key), *args, **kwargs)
            record, failed = None, True
            try:
                record = before(args)
            except Exception as error:  # noqa: BLE001 - counted
                site.handle(error)
            started = now()
            try:
                result = redispatch(keys.remove(key), *args, **kwargs)
                failed = False
            finally:
                elapsed = now() - started
                try:
                    after(args, record, started, elapsed, failed)
                except Exception as error:  # noqa: BLE001 - counted
                    site.handle(error)
            return result

        return kernel

    def _issuing(self, operator: Any) -> Function:
        """Wrap a functional operator: announce its collective to the kernels below, and keep its results."""
        issuer, keep, redispatch, key = self._issuer, self._keep_results, _redispatch(operator), _key()

        def kernel(keys: Any, *args: Any, **kwargs: Any) -> Any:
            before, issuer.source, issuer.issued = issuer.source, Source.FUNCTIONAL, None
            try:
                result = redispatch(keys.remove(key), *args, **kwargs)
            finally:
                issuer.source = before
            try:
                keep(issuer.issued, result)
            except Exception as error:  # noqa: BLE001 - counted
                guard("collectives.results").handle(error)
            return result

        return kernel

    def _keep_results(self, issued: _Issued | None, result: Any) -> None:
        if issued is None:
            return
        for tensor in result if isinstance(result, list | tuple) else (result,):
            if len(self._results) >= MAXIMUM_PENDING:
                self._results.pop(next(iter(self._results)), None)
            address = tensor.data_ptr()
            # Empty shards have none.
            if address:
                self._results[address] = issued

    def _waiting(self, operator: Any) -> Function:
        """``wait_tensor``: adds its time to the collective that has this result."""
        results, redispatch, key = self._results, _redispatch(operator), _key()

        def kernel(keys: Any, *args: Any, **kwargs: Any) -> Any:
            wait = None
            try:
                issued = None if _is_fake(args[0]) else results.pop(args[0].data_ptr(), None)
                wait = None if issued is None else _CollectiveWait(self._recorder, issued)
            except Exception as error:  # noqa: BLE001 - counted
                guard("collectives.wait_tensor").handle(error)
            try:
                return redispatch(keys.remove(key), *args, **kwargs)
            finally:
                if wait is not None:
                    wait.end()

        return kernel

    def _on_backward_end(self, torch: Any, backward: _Backward) -> None:
        """Measure how long the reducer waits at the end of this backward pass.

        It waits in a callback of the autograd engine, for all buckets. Callbacks run in the order in which they were
        added, and one may add more. Ours comes first, with the first bucket: it runs when nothing is left to compute.
        The one that it adds runs after the reducer's (torch 2.13, ``Reducer::finalize_backward``).
        """
        add = torch.autograd.Variable._execution_engine.queue_callback  # noqa: SLF001 - as FSDP uses it
        add(partial(_computed, self._recorder, add, backward))


class _CollectiveWait:
    """A thread waits for a collective, from now to :meth:`end`."""

    def __init__(self, recorder: CollectiveRecorder, issued: _Issued) -> None:
        self._recorder = recorder
        self._slot = issued.slot
        records = recorder.flight_records
        self._record = None if records is None else records.begin_wait_for(issued.launch)
        self._started = clock()

    def end(self) -> None:
        """End the wait. Raises nothing."""
        try:
            self._recorder.add_wait(self._slot, self._started, clock() - self._started)
            records = self._recorder.flight_records
            if records is not None and self._record is not None:
                records.end(self._record, False)
        except Exception as error:  # noqa: BLE001 - counted
            guard("collectives.wait").handle(error)


def _computed(recorder: CollectiveRecorder, add: Callable[[Function], None], backward: _Backward) -> None:
    """Nothing is left to compute in this backward pass: what remains is the wait."""
    try:
        add(_CollectiveWait(recorder, backward.latest).end)
    except Exception as error:  # noqa: BLE001 - counted
        guard("collectives.backward").handle(error)


def _nothing(*_: Any) -> None:
    """Begin nothing: the flight recorder is off."""


def _key() -> Any:
    return sys.modules["torch"]._C.DispatchKey.BackendSelect  # noqa: SLF001 - no public name


def _redispatch(operator: Any) -> Function:
    """Hand a call on to the kernels below ours.

    Not ``operator.redispatch``: that is Python code, which Dynamo would compile where compiled code issues the call.
    """
    call: Function = operator._handle.redispatch_boxed  # noqa: SLF001 - see above
    return call


def _operator(torch: Any, library: str, name: str) -> Any:
    return getattr(getattr(torch.ops, library), name).default


def _functional_names(torch: Any) -> list[str]:
    prefix = f"{_FUNCTIONAL}::"
    names = torch._C._dispatch_get_all_op_names()  # noqa: SLF001 - no public list
    return [name.removeprefix(prefix) for name in names if name.startswith(prefix) and "." not in name]


def _positions(operator: Any, known: Operator) -> tuple[int, int | None]:
    """Where the process group and the message are among the arguments."""
    names = [argument.name for argument in operator._schema.arguments]  # noqa: SLF001 - no public schema
    return names.index("process_group"), None if known.payload is None else names.index(known.payload)


def _is_fake(message: Any) -> bool:
    """Return whether a tensor has no data: a compiler traces the program."""
    # The exact types, which the dispatcher passes: asking for subclasses too makes an object at each call.
    while type(message) in _LISTS and message:
        message = message[0]
    return type(message).__name__ == "FakeTensor"
