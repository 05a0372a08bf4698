"""Agents, workflows, nodes and rewards: spans of the runs that LangChain's callback managers announce."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from otel_rl.agents import runs as agent_runs
from otel_rl.agents.runs import Description
from otel_rl.agents.trajectories import of_run
from otel_rl.inference import ownership
from otel_rl.instrumentors.langchain import graph_rewards, other_instrumentors, runs
from otel_rl.instrumentors.langchain.errors import error_in
from otel_rl.semconv import attributes, spans
from otel_rl.telemetry import Scope, conversations, guard, lifecycle, open_trajectory
from otel_rl.telemetry.attribute_values import error_type, text
from otel_rl.telemetry.context import get_current
from otel_rl.telemetry.open_trajectory import MAXIMUM_LENGTH

if TYPE_CHECKING:
    from uuid import UUID

    from otel_rl.agents.trajectories import AgentTrajectory

scope = Scope("langchain")
#: Kinds of runs that are steps of others, by the names of langchain-core.
_STEPS = frozenset({"prompt", "parser"})
_CONVERSATION_KEYS = ("thread_id", "session_id", "conversation_id")


def started(
    manager: Any, name: str | None, serialized: dict[str, Any] | None, inputs: Any, run_type: str | None
) -> None:
    """Begin a chain, graph or node; ``manager`` is the run manager that LangChain made for it."""
    if not scope.enabled:
        return
    parent = runs.use(manager.parent_run_id)
    tags, metadata = manager.tags or (), manager.metadata or {}
    is_node, is_root = _is_node(tags, metadata), manager.parent_run_id is None and run_type not in _STEPS
    # Rewards of nodes and trajectories are ours to record, whoever has the spans.
    is_taken = other_instrumentors.is_taken()
    description = None if is_taken and not is_root else _describe(serialized, name, tags, metadata, is_root)
    trajectory = _trajectory(manager.run_id, description) if is_root and description is not None else None
    if description is None or is_taken:
        run = runs.TracedRun(manager.run_id, runs.context_without_span(parent), is_node=is_node, above=parent)
    else:
        definition, span_name, values, duration = description
        above, links = (runs.context_below(parent), []) if trajectory is None else trajectory.place(get_current())
        span = scope.start_span(definition, span_name, attributes=values, context=above, links=links)
        context = ownership.span_context(span, above)
        if trajectory is not None:
            context = trajectory.context_below(span, context)
        if duration is not None:
            context = open_trajectory.context_of_agent(context)
        conversation = values.get(attributes.GEN_AI_CONVERSATION_ID)
        if conversation is not None:
            context = conversations.context_with(text(conversation, MAXIMUM_LENGTH), context)
        run = runs.TracedRun(manager.run_id, context, span, duration, above=parent, is_node=is_node)
    run.trajectory = trajectory or run.trajectory
    if is_node:
        graph_rewards.node_began(run, inputs)
        if parent is not None:
            parent.is_graph = True
        _begins_trajectory(run)
    elif graph_rewards.resumes(inputs):
        run.resumes = True
    for evicted in runs.add(run):
        _end(evicted, left_open=True)


def returned(run_id: UUID, outputs: Any) -> None:
    """End a run that returned."""
    with guard("langchain.reward"):
        run = runs.open_run(run_id)
        if run is not None and run.is_node:
            graph_rewards.node_ended(run, outputs)
    for run in runs.pop(run_id):
        _end(run)


def raised(run_id: UUID, error: BaseException | None) -> None:
    """End a run that raised, was cancelled, or only passed control flow on."""
    with guard("langchain.reward"):
        run = runs.open_run(run_id)
        if run is not None and run.is_node and error is not None and error_in(error) is None:
            graph_rewards.node_ended(run, error)
    for run in runs.pop(run_id):
        _end(run, error_in(error) if run.run_id == run_id else None)


def end_all() -> None:
    """End the runs that are still open when the process ends."""
    for run in runs.pop_all():
        _end(run, left_open=True)


def _begins_trajectory(run: runs.TracedRun) -> None:
    """Count the run at the top as a trajectory."""
    if run.trajectory is not None:
        run.trajectory.begin()


def models_began(managers: Any) -> None:
    """Models are asked: the runs above them are trajectories."""
    for manager in managers if isinstance(managers, list) else ():
        run = runs.open_run(manager.parent_run_id)
        if run is not None:
            _begins_trajectory(run)


def _trajectory(run_id: UUID, description: Description) -> AgentTrajectory | None:
    """Return what may be a trajectory, for a run that nothing else called; None where a rollout is open around it.

    An agent is one. Anything else, which may be data processing alone, is one with its first node of a graph, or its
    first call of a model or tool.
    """
    trajectory = of_run(scope, description.values, str(run_id))
    if trajectory is not None and description.definition is spans.GEN_AI_INVOKE_AGENT:
        trajectory.begin()
    return trajectory


def _end(run: runs.TracedRun, error: BaseException | None = None, *, left_open: bool = False) -> None:
    trajectory = run.trajectory if run.above is None else None
    ended = None
    if trajectory is not None:
        ended = trajectory.end(time.perf_counter() - run.started, error, left_open=left_open)
    if run.span is None:
        return
    if run.duration is not None:
        metric, labels = run.duration
        if error is not None:
            labels = {**labels, attributes.ERROR_TYPE: error_type(error)}
        scope.record(metric, time.perf_counter() - run.started, labels, run.context)
    scope.end_span(run.span, error)
    if trajectory is not None:
        trajectory.let_go(ended)


def _describe(
    serialized: dict[str, Any] | None, name: str | None, tags: Any, metadata: dict[str, Any], is_root: bool
) -> Description | None:
    """Classify a run by its LangChain and LangGraph metadata; return None for internal runs."""
    if _is_node(tags, metadata) or _is_task(name, metadata):
        node = metadata["langgraph_node"]
        if node.startswith("__"):
            return None
        values = {attributes.RL_AGENT_NODE_NAME: node, attributes.GEN_AI_AGENT_NAME: metadata.get("lc_agent_name")}
        return Description(spans.RL_AGENT_NODE, f"node {node}", values, None)
    agent = metadata.get("lc_agent_name") or metadata.get("agent_name")
    if (agent and agent == name) or (is_root and _is_agent(agent, name, metadata)):
        return agent_runs.agent(agent or name or "", _conversation(metadata))
    # A root without a serialised form is a graph or a composed chain; one with it is a prompt, a parser and the like.
    if is_root and (not serialized or "LangGraph" in str(serialized.get("name"))):
        return agent_runs.workflow(name or "", _conversation(metadata))
    return None


def _is_node(tags: Any, metadata: dict[str, Any] | None) -> bool:
    """LangGraph marks what runs inside a node as well, but only the node itself with its step."""
    return bool(
        metadata and metadata.get("langgraph_node") and any(tag.startswith("graph:step:") for tag in tags or ())
    )


def _is_task(name: str | None, metadata: dict[str, Any]) -> bool:
    """Return whether this is a ``@task`` of LangGraph's functional API: a pushed node, marked at the end of its path.

    langgraph 1.2.22, ``pregel._algo.prepare_push_task_functional``; 0.4.0 does the same. What runs inside has another
    name.
    """
    path: tuple[Any, ...] = metadata.get("langgraph_path") or ()
    return len(path) > 1 and path[0] == "__pregel_push" and path[-1] is True and name == metadata.get("langgraph_node")


def _is_agent(agent: str | None, name: str | None, metadata: dict[str, Any]) -> bool:
    return bool(
        agent or metadata.get("ls_integration") == "langchain_create_agent" or (name and "agent" in name.lower())
    )


def _conversation(metadata: dict[str, Any]) -> str | None:
    for key in _CONVERSATION_KEYS:
        if metadata.get(key):
            return str(metadata[key])
    return None


lifecycle.before_shutdown(end_all)
