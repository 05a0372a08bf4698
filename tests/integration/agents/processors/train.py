"""Rollouts, and then the rewards, in this process and in another."""

import concurrent.futures
import multiprocessing

from pipeline import RewardProcessor, RolloutProcessor, Sample

if __name__ == "__main__":
    rollout, reward = RolloutProcessor(), RewardProcessor()
    # By the object, and by its sample id; several steps have the same one.
    for _ in range(2):
        for sample in [rollout.run(Sample(number)) for number in (1, 2)]:
            print(reward.run(Sample(sample.sample_id, sample.answer)))
    # By the id that the rollout has given its result.
    made = [rollout.run({"number": number}) for number in (3, 4)]
    print([reward.run(one)["score"] for one in made])
    # A batch, of which each has its own.
    print(reward.run([rollout.run({"rollout_id": f"b-{number}"}) for number in (5, 6)]))
    # In another process, where it is known by its ids only.
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        print(pool.submit(reward.run, rollout.run(Sample(7))).result())
        print(pool.submit(reward.run, rollout.run({"rollout_id": "elsewhere"})).result())
    # Of two with the same sample id nothing says which one is scored.
    rollout.run(Sample(8)), rollout.run(Sample(8))
    print(reward.run(Sample(8, 1)))
