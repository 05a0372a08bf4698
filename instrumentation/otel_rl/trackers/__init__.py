"""Experiment trackers that this process writes to; what programs log to theirs is captured by the instrumentors.

Packages:
    mlflow: the client of an MLflow tracking server, ``OTEL_RL_MLFLOW``.
    write_back: figures of each step in the tracker of the program, ``OTEL_RL_WRITE_BACK``.

Modules:
    keys: how the keys begin that are ours.
"""
