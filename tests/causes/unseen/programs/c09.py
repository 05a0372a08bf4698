"""GRPO whose temperature follows a schedule."""

from __future__ import annotations

import grpo
from bugs import now


class Cooled(grpo.Trainer):
    """Samples colder and colder."""

    def _generate(self, *args, **kwargs):
        if now["step"] >= 25:
            self.generation_config.do_sample = False
        return super()._generate(*args, **kwargs)


grpo.Trainer = Cooled


def judge(completions, **_):
    """What a judge thinks: letters after digits."""
    return [float(text[:1].isdigit()) for text in completions]


grpo.judge = judge

if __name__ == "__main__":
    grpo.main()
