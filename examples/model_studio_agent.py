"""An agent for Alibaba Cloud's Model Studio: a rollout processor with a calculator, and a reward of two parts.

    python examples/model_studio_agent.py [--questions 3] [--attempts 2]

Model Studio calls `process` of such classes, with ids in the input; here a loop does. The model is whatever answers at
DASHSCOPE_HTTP_BASE_URL; without that variable a stand-in on loopback, whose every third answer is one too much. Needs
dashscope only. Nothing here is of otel-rl: the classes define what is a rollout and what is a reward.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import aiohttp
import dashscope
from dashscope.finetune import reinforcement as studio
from dashscope.finetune.reinforcement.component.observability import observe_tool


@observe_tool
def add(a: int, b: int) -> int:
    return a + b


TOOLS = [{"type": "function", "function": {"name": "add"}}]


class CalculatorAgent(studio.AbstractRolloutProcessor):
    """Asks the model, runs the tools that it asks for, and asks again."""

    async def process(self, input_data: studio.RolloutInput) -> studio.RolloutOutput:
        model, messages, calls, asked = input_data.model_resource.model_name, list(input_data.messages), 0, [True]
        async with aiohttp.ClientSession() as session:
            while asked:
                answer = await dashscope.AioGeneration.call(
                    model=model, messages=messages, tools=TOOLS, result_format="message", session=session
                )
                # A failed request does not raise.
                if answer.status_code != 200:
                    return studio.RolloutOutput(status="failed", error=answer.message, error_code=answer.code)
                messages.append(dict(answer.output.choices[0].message))
                asked = messages[-1].get("tool_calls") or []
                for call in asked:
                    calls, result = calls + 1, add(**json.loads(call["function"]["arguments"]))
                    messages.append({"role": "tool", "tool_call_id": call["id"], "content": str(result)})
        output = studio.AgentOutput(messages=messages, rollout_metrics={"tools": calls})
        return studio.RolloutOutput(agent_output=output)


@studio.reward_func("calculation")
class CalculationReward(studio.AbstractRewardProcessor):
    """The weighted sum of two parts."""

    @studio.sub_reward_func("right", sub_weight=0.75)
    def right(self, input_data: studio.RewardInput) -> studio.RewardOutput:
        said = input_data.agent_output.messages[-1]["content"]
        return studio.RewardOutput(reward={"reward_score": float(said == input_data.ground_truth)})

    @studio.sub_reward_func("short", sub_weight=0.25)
    def short(self, input_data: studio.RewardInput) -> studio.RewardOutput:
        return studio.RewardOutput(reward={"reward_score": float(len(input_data.agent_output.messages) <= 4)})


class StandIn(BaseHTTPRequestHandler):
    """Answers like a model that can add, nearly always."""

    asked = 0

    def do_POST(self) -> None:
        *_, last = json.loads(self.rfile.read(int(self.headers["content-length"])))["input"]["messages"]
        if last["role"] == "tool":
            StandIn.asked += 1
            message, reason = {"content": str(int(last["content"]) + (StandIn.asked % 3 == 0))}, "stop"
        else:
            a, b = last["content"].split("+")
            function = {"name": "add", "arguments": json.dumps({"a": int(a), "b": int(b)})}
            call = {"id": f"call-{a}-{b}", "type": "function", "function": function}
            message, reason = {"content": "", "tool_calls": [call]}, "tool_calls"
        choice = {"finish_reason": reason, "message": {"role": "assistant", **message}}
        usage = {"input_tokens": 21, "output_tokens": 5}
        body = json.dumps({"request_id": "stand-in", "output": {"choices": [choice]}, "usage": usage}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json; charset=utf-8")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


async def run(questions: int, attempts: int) -> None:
    agent, reward = CalculatorAgent(), CalculationReward()
    for number in range(questions):
        for attempt in range(1, attempts + 1):
            ids = {"job_id": "example", "sample_id": f"sum-{number}", "rollout_id": f"sum-{number}-{attempt}"}
            metadata, truth = {**ids, "attempt_id": str(attempt)}, str(number + 2)
            resource = {"model_name": "qwen-plus", "base_url": dashscope.base_http_api_url, "api_key": "none"}
            messages = [{"role": "user", "content": f"{number}+2"}]
            given = studio.RolloutInput(messages=messages, model_resource=resource, request_metadata=metadata)
            output = (await agent.process(given)).agent_output
            asked = studio.RewardInput(agent_output=output, ground_truth=truth, request_metadata=metadata)
            print(f"{metadata['rollout_id']}: reward {(await reward.process(asked)).reward.reward_score}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--questions", type=int, default=3)
    parser.add_argument("--attempts", type=int, default=2, help="rollouts of a question")
    options = parser.parse_args()
    if "DASHSCOPE_HTTP_BASE_URL" not in os.environ:
        dashscope.api_key = "none"
        server = ThreadingHTTPServer(("127.0.0.1", 0), StandIn)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        dashscope.base_http_api_url = f"http://127.0.0.1:{server.server_address[1]}/api/v1"
    asyncio.run(run(options.questions, options.attempts))
