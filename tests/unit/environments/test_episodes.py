"""Episodes of real environments: each step counts once, whatever steps it, and nothing changes for the program."""

from __future__ import annotations

import functools
import gc
import io
import pickle
import threading
import weakref
from itertools import pairwise
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest

import otel_rl
from otel_rl.instrumentors.gymnasium import GymnasiumInstrumentor, followed
from otel_rl.instrumentors.vector_episodes import UNREADABLE
from otel_rl.telemetry import drops
from otel_rl.training import environments

CARTPOLE = "CartPole-v1"


class Corridor(gym.Env):
    """Ends after three steps with a reward of 2 each."""

    observation_space, action_space = gym.spaces.Discrete(4), gym.spaces.Discrete(2)

    def __init__(self, reward=2.0, success=None):
        self.reward, self.success = reward, success

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return 0, {}

    def step(self, action):
        """Go on."""
        self.place += 1
        info = {} if self.success is None else {"is_success": self.success}
        return self.place, self.reward, self.place == 3, False, info


class LongerCorridor(Corridor):
    def step(self, action):
        return super().step(action)


def play(env, steps, seed=0):
    """What a program sees of so many random steps."""
    env.reset(seed=seed)
    env.action_space.seed(seed)
    seen = []
    for _ in range(steps):
        observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        seen.append((np.asarray(observation).tolist(), float(reward), terminated, truncated))
        if terminated or truncated:
            env.reset()
    return seen


def lengths(seen):
    ends = [-1, *(place for place, (*_, terminated, truncated) in enumerate(seen) if terminated or truncated)]
    return [after - before for before, after in pairwise(ends)]


def test_episodes_of_an_environment_that_make_has_made(counted):
    expected = lengths(play(gym.make(CARTPOLE), 200))
    assert counted.episodes(CARTPOLE) == [(float(length), length) for length in expected]
    assert counted.steps == {CARTPOLE: 200}


def test_a_program_sees_the_same_with_us_and_without(counted):
    watched = play(gym.make(CARTPOLE), 300)
    GymnasiumInstrumentor().uninstrument()
    assert play(gym.make(CARTPOLE), 300) == watched
    GymnasiumInstrumentor().instrument()


def test_the_step_limit_ends_an_episode_at_the_next_reset(counted):
    env = gym.make("Pendulum-v1", max_episode_steps=7)
    play(env, 21)
    assert [length for _, length in counted.episodes("Pendulum-v1")] == [7, 7, 7]


def test_an_environment_of_a_class_of_the_program_counts_under_its_name(counted):
    play(Corridor(), 6)
    assert counted.episodes("Corridor") == [(6.0, 3), (6.0, 3)]
    assert Corridor.step.__doc__ == "Go on."


def test_a_step_that_calls_that_of_the_base_class_counts_once(counted):
    play(Corridor(), 3)
    play(LongerCorridor(), 3)
    assert counted.steps == {"Corridor": 3, "LongerCorridor": 3}


@pytest.mark.parametrize("reward", [1, np.float32(1), np.float64(1), np.int64(1), np.array(1.0)])
def test_rewards_of_numpy_are_numbers(counted, reward):
    play(Corridor(reward), 3)
    assert counted.episodes("Corridor") == [(3.0, 3)]


def test_wrappers_see_their_own_rewards_and_we_the_environments(counted):
    play(gym.wrappers.TransformReward(Corridor(), lambda reward: 100 * reward), 3)
    assert counted.episodes("Corridor") == [(6.0, 3)]


def test_success_is_what_the_environment_says_at_the_end(counted):
    play(Corridor(success=np.True_), 3)
    play(Corridor(success=False), 3)
    play(Corridor(), 3)
    assert counted.successes("Corridor") == [True, False, None]


def test_an_exception_of_the_environment_arrives_and_the_next_step_counts(counted):
    class Failing(Corridor):
        def step(self, action):
            if action == 1:
                raise ArithmeticError
            return super().step(action)

    env = Failing()
    env.reset()
    with pytest.raises(ArithmeticError):
        env.step(1)
    env.step(0)
    assert counted.steps == {"Failing": 1}


def test_steps_of_an_environment_that_is_gone_stay_counted(counted):
    play(Corridor(), 4)
    gc.collect()
    assert counted.steps == {"Corridor": 4}
    assert environments.open_episodes == environments._counts.references == {}


def test_a_vector_in_the_process_counts_each_environment_once(counted):
    vector = gym.make_vec(CARTPOLE, num_envs=3, vectorization_mode="sync")
    vector.reset(seed=0)
    for _ in range(100):
        vector.step(vector.action_space.sample())
    finished = sum(length for _, length in counted.episodes(CARTPOLE))
    # The step after an end only resets: it is no step of an environment. The last ends may have had none yet.
    least = 300 - len(counted.episodes(CARTPOLE))
    assert 0 < finished <= sum(counted.steps.values())
    assert least <= sum(counted.steps.values()) <= least + 3


@pytest.mark.parametrize("mode", ["async", "vector_entry_point"])
def test_vectors_that_step_elsewhere_are_counted_by_their_results(counted, mode):
    vector = gym.make_vec(CARTPOLE, num_envs=2, vectorization_mode=mode)
    vector = gym.wrappers.vector.RecordEpisodeStatistics(vector)
    vector.action_space.seed(0)
    vector.reset(seed=0)
    theirs = []
    for _ in range(100):
        *_, info = vector.step(vector.action_space.sample())
        if "episode" in info:
            theirs += [
                (float(info["episode"]["r"][i]), int(info["episode"]["l"][i])) for i in np.flatnonzero(info["_episode"])
            ]
    vector.close()
    [name] = counted.names
    assert counted.episodes(name) == theirs
    assert len(theirs) > 4
    # In a step after an end an environment only resets; the last ends may have had none yet.
    assert 200 - len(theirs) <= counted.steps[name] <= 200 - len(theirs) + 2


class Results(gym.vector.VectorEnv):
    """A vector of two environments that gives what it is told to, as those do that run on a device."""

    num_envs, metadata = 2, {"autoreset_mode": SimpleNamespace(value="SameStep")}

    def __init__(self, *results):
        self.results = results

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return None, {}

    def step(self, actions):
        return None, *self.results, {}


class OnDevice:
    """Stands for an array on a device, which nobody may read."""

    def _read(self, *_, **__):
        raise AssertionError("read")

    __array__ = __or__ = __ror__ = __and__ = __rand__ = __invert__ = __bool__ = __float__ = __iter__ = _read


def _unreadable():
    return drops.snapshot().get(("metrics", UNREADABLE), 0)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_vector_whose_results_are_on_a_device_is_not_followed_and_counted_once(counted, place):
    before, results = _unreadable(), [np.ones(2), np.array([False, True]), np.zeros(2, bool)]
    vector = Results(*results)
    vector.reset()
    vector.step(None)
    vector.results = [*results[:place], OnDevice(), *results[place + 1 :]]
    for _ in range(3):
        vector.step(None)
    vector.reset()
    vector.step(None)
    assert _unreadable() == before + 1
    assert counted.steps == {"Results": 2}
    assert counted.episodes("Results") == [(1.0, 1)]


def test_results_of_a_vector_may_be_lists(counted):
    before, vector = _unreadable(), Results([1.0, 2.0], [False, True], [False, np.False_])
    vector.reset()
    vector.step(None)
    assert _unreadable() == before
    assert counted.episodes("Results") == [(2.0, 1)]


@pytest.mark.parametrize("rewards", [[OnDevice(), 1.0], np.ones((2, 1)), np.array([None, None])])
def test_results_that_are_no_number_for_each_environment_are_not_followed(counted, rewards):
    before, vector = _unreadable(), Results(rewards, np.zeros(2, bool), np.zeros(2, bool))
    vector.reset()
    vector.step(None)
    assert (_unreadable(), counted.steps) == (before + 1, {"Results": 0})


def test_a_step_of_the_training_has_the_episodes_that_ended_in_it(counted, recorded):
    for iteration in (1, 2):
        with otel_rl.step(iteration):
            play(Corridor(float(iteration), success=iteration == 2), 6)
    first, second = (event.body for event in recorded.events("rl.step"))
    assert {key: value for key, value in first.items() if key != "environment/steps_per_second"} == {
        "environment/return_mean": 3.0,
        "environment/return_min": 3.0,
        "environment/return_max": 3.0,
        "environment/length_mean": 3.0,
        "environment/episodes": 2.0,
        "environment/success_rate": 0.0,
    }
    assert first["environment/steps_per_second"] > 0
    assert (second["environment/return_mean"], second["environment/success_rate"]) == (6.0, 1.0)


def test_the_first_rate_is_since_the_first_reset(counted, recorded, monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(environments, "time", SimpleNamespace(monotonic=lambda: clock.now))
    environments._forget()
    # The program loads a model first.
    clock.now = 1000.0
    env = Corridor()
    env.reset()
    with otel_rl.step(1):
        env.step(0)
        env.step(0)
        clock.now = 1002.0
    [event] = recorded.events("rl.step")
    assert event.body["environment/steps_per_second"] == 1.0


def test_episodes_of_an_evaluation_are_told_apart(counted, recorded):
    with otel_rl.step(1):
        play(Corridor(), 3)
        with otel_rl.phase("evaluate"):
            play(Corridor(5.0), 3)
    [event] = recorded.events("rl.step")
    assert (event.body["environment/return_mean"], event.body["eval_environment/return_mean"]) == (6.0, 15.0)
    assert counted.episodes("Corridor", evaluation=True) == [(15.0, 3)]


def test_gauges_of_training_and_evaluation_are_both_within_the_budget(counted, recorded):
    env = type("OfBoth", (Corridor,), {})()
    play(env, 3)
    with otel_rl.phase("evaluate"):
        play(env, 3)
    points = recorded.metrics()["rl.environment.episode.return.max"]
    told = {
        point.attributes["rl.environment.evaluation"]
        for point in points
        if point.attributes["rl.environment.name"] == "OfBoth"
    }
    assert told == {True, False}


def test_gauges_are_about_the_last_hundred_episodes(counted):
    # Counters of other tests have other names: they are deltas.
    env = type("OfThisTest", (Corridor,), {})(1.0)
    play(env, 3)
    env.reward = 3.0
    play(env, 3 * 120)
    points = counted.points("OfThisTest")
    assert points["rl.environment.episode.return.min"] == points["rl.environment.episode.return.mean"] == 9.0
    assert points["rl.environment.episode.steps.max"] == 3
    assert points["rl.environment.episodes"] == 121
    assert points["rl.environment.steps"] == 363


def test_environments_are_pickled_as_before(counted):
    env = Corridor()
    play(env, 2)
    assert pickle.loads(pickle.dumps(env)).place == 2  # noqa: S301 - our own bytes
    assert not [name for name in vars(env) if "otel" in name]


class _Modules(pickle.Unpickler):
    """Notes the modules that a pickle needs."""

    def __init__(self, pickled):
        super().__init__(io.BytesIO(pickled))
        self.needed = set()

    def find_class(self, module, name):
        self.needed.add(module.partition(".")[0])
        return super().find_class(module, name)


def test_a_class_that_is_pickled_by_value_takes_nothing_of_ours_along(counted):
    cloudpickle = pytest.importorskip("cloudpickle")

    class Locked(Corridor):
        lock = threading.Lock()

    class Local(gym.Env):
        observation_space, action_space = Corridor.observation_space, Corridor.action_space

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return 0, {}

        def step(self, action):
            return 0, 2.0, False, False, {"is_success": True}

    locked, env = Locked(), Local()
    play(locked, 1)
    play(env, 2)
    assert counted.steps == {"Locked": 1, "Local": 2}
    modules = _Modules(cloudpickle.dumps(Local))
    copy = modules.load()
    assert "otel_rl" not in modules.needed
    assert copy().step(0) == (0, 2.0, False, False, {"is_success": True})


def test_a_class_that_nobody_refers_to_any_more_is_gone(counted):
    def one():
        class OfOneEnvironment(Corridor):
            def step(self, action):
                return super().step(action)

        env = OfOneEnvironment()
        play(env, 2)
        return weakref.ref(type(env))

    kind = one()
    gc.collect()
    assert kind() is None
    assert counted.steps == {"OfOneEnvironment": 2}


def test_only_so_many_classes_are_followed_and_the_others_counted_once(counted, monkeypatch):
    monkeypatch.setattr(followed, "MOST", 1)
    before = drops.snapshot().get(("metrics", followed.LIMIT), 0)
    env, other = Corridor(), LongerCorridor()
    for _ in range(2):
        play(env, 1)
        play(other, 1)
    assert counted.steps == {"Corridor": 2}
    assert drops.snapshot()["metrics", followed.LIMIT] == before + 1


def test_a_step_that_somebody_else_has_wrapped_stays_and_counts_once(counted):
    class Patched(Corridor):
        def step(self, action):
            return super().step(action)

    original = vars(Patched)["step"]
    play(Patched(), 1)
    ours = vars(Patched)["step"]

    @functools.wraps(ours)
    def theirs(*args, **kwargs):
        return ours(*args, **kwargs)

    Patched.step = theirs
    GymnasiumInstrumentor().uninstrument()
    assert vars(Patched)["step"] is theirs
    GymnasiumInstrumentor().instrument()
    play(Patched(), 1)
    assert counted.steps == {"Patched": 2}
    Patched.step = ours
    play(Patched(), 1)
    GymnasiumInstrumentor().uninstrument()
    assert vars(Patched)["step"] is original
    GymnasiumInstrumentor().instrument()


def test_a_class_of_vectors_that_is_pickled_by_value_takes_nothing_of_ours_along(counted):
    cloudpickle = pytest.importorskip("cloudpickle")

    class Vector(gym.vector.VectorEnv):
        num_envs, metadata = 1, {"autoreset_mode": None}

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return None, {}

        def step(self, actions):
            return None, [1.0], [False], [False], {}

    vector = Vector()
    vector.reset()
    vector.step(None)
    assert counted.steps == {"Vector": 1}
    modules = _Modules(cloudpickle.dumps(Vector))
    copy = modules.load()
    assert "otel_rl" not in modules.needed
    assert copy().step(None) == (None, [1.0], [False], [False], {})
