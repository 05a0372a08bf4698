"""A reward that a random model can earn."""


def compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    """One for a third of all answers."""
    return float(sum(map(ord, solution_str)) % 3 == 0)
