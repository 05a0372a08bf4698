"""Actors of Ray in steps of their driver: some are killed, one dies, one is started again, the others are left."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import ray

import otel_rl
from otel_rl.instrumentors.ray import ends
from otel_rl.pipeline import prompt_delivery


@ray.remote(num_cpus=0)
class Learner:
    def update(self, value: float) -> int:
        with otel_rl.span("inside"):
            otel_rl.count("updates")
        return os.getpid()

    def plain(self, *, _private: int = 0) -> int:
        return _private

    def die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def fail(self) -> None:
        raise ValueError("of the program")


@ray.remote(num_cpus=0)
class RolloutWorker:
    async def generate(self, number: int) -> str:
        with otel_rl.rollout(f"r-{number}") as it:
            await asyncio.sleep(0.01)
            it.reward("score", number)
        return f"answer {number}"

    async def start(self, numbers: list[int]) -> None:
        """Return at once; the rollouts go on."""
        self.tasks = [asyncio.create_task(self.generate(number)) for number in numbers]

    async def wait(self) -> int:
        # Longer than a call that is too short for a span.
        await asyncio.gather(asyncio.sleep(0.01), *self.tasks)
        return len(self.tasks)


@ray.remote(num_cpus=0, max_restarts=1, max_task_retries=1)
class Phoenix:
    def once(self, mark: str) -> str:
        if not Path(mark).exists():
            Path(mark).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return "back"


@ray.remote(num_cpus=0)
class Controller:
    """The trainer of a system that we do not know: it logs, and that is all."""

    def run(self, folder: str) -> None:
        from tensorboardX import SummaryWriter

        writer = SummaryWriter(folder)
        for step in (1, 2, 3):
            writer.add_scalar("reward", step / 10, step)
            writer.add_scalar("timing_s/step", 0.5, step)
            writer.add_scalar("timing_s/gen", 0.3, step)
        writer.close()


@ray.remote(num_cpus=0)
def task(number: int) -> int:
    with otel_rl.span("in a task"):
        return number + 1


def wait_longer() -> None:
    """Let each call deliver, however long that takes: a busy machine is no part of what is tested."""
    prompt_delivery.LONGEST_WAIT, prompt_delivery._INTERVAL, prompt_delivery._PAUSE = 60.0, 0.0, 0
    ends._LONGEST_WAIT = 60.0


def say(text: str) -> None:
    """Print it whole: a thread of Ray writes between the parts of what ``print`` gets."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(folder: str) -> None:
    wait_longer()
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        _node_ip_address="127.0.0.1",
        runtime_env={"worker_process_setup_hook": wait_longer},
    )
    learner, rollouts, killed, dead = Learner.remote(), RolloutWorker.remote(), Learner.remote(), Learner.remote()
    for number in (1, 2):
        with otel_rl.step(number):
            ray.get(rollouts.start.remote([10 * number, 10 * number + 1]))
            assert ray.get(rollouts.wait.remote()) == 2
            ray.get(learner.update.remote(0.5))
    assert ray.get(learner.plain.remote(_private=7)) == 7
    assert ray.get(task.remote(1)) == 2
    controller, phoenix = Controller.remote(), Phoenix.remote()
    ray.get(controller.run.remote(f"{folder}/tensorboard"))
    ray.get(killed.update.remote(1.0))
    ray.kill(killed)
    try:
        ray.get(learner.fail.remote())
    except ValueError as error:
        say(f"caught {error.args[0]}")
    try:
        ray.get(dead.die.remote())
    except ray.exceptions.RayActorError as error:
        say(f"died {type(error).__name__}")
    say(ray.get(phoenix.once.remote(f"{folder}/mark")))
    say("done")


if __name__ == "__main__":
    main(sys.argv[1])
