"""An unmodified pipeline: one class makes trajectories, another scores them; both have their method from a base."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Sample:
    """One sample on its way through the processors."""

    sample_id: int
    answer: int = 0


@dataclass(slots=True)
class Trajectory:
    """What a rollout has made, with an id of the program's own."""

    trajectory_id: str
    answers: list[int] = field(default_factory=list)


class Processor:
    """Runs :meth:`work` on a sample."""

    def __call__(self, sample):
        return self.work(sample)

    def run(self, sample):
        return self.work(sample)


class RolloutProcessor(Processor):
    """Answers a sample, and returns it, or a trajectory of its own."""

    def work(self, sample):
        if isinstance(sample, Sample):
            sample.answer = sample.sample_id * 2
            return sample
        if "rollout_id" in sample:
            return {**sample, "answer": 2}
        return Trajectory(f"t-{sample['number']}", [sample["number"]])


class RewardProcessor(Processor):
    """Scores a sample, or each of a list."""

    def work(self, sample):
        if isinstance(sample, list):
            return [self.work(one) for one in sample]
        if isinstance(sample, Sample):
            return sample.answer / 10
        if isinstance(sample, Trajectory):
            return {"score": float(sum(sample.answers)), "length": len(sample.answers)}
        return 0.5
