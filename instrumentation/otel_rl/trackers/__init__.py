"""Experiment trackers that this process writes to; what programs log to theirs is captured by the instrumentors.

Packages:
    mlflow: the client of an MLflow tracking server, ``OTEL_RL_MLFLOW``.
"""
