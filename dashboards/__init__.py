"""Grafana boards, recording rules and alerts of otel-rl, written as Python and generated into committed files.

``python -m dashboards build`` writes ``dashboards/generated/``; ``python -m dashboards build --check`` says what would
change. See ``dashboards/README.md``.
"""
