"""Rollout dumps of trainers, imported as a run that all readers take: ``otel-rl import``.

================= ============================================================
``imported_run``  a run folder made of dumps
``slime``         slime's ``.pt`` files
``verl``          verl's JSON lines
``dumped_sample`` one sample, as both give it, and its records
================= ============================================================
"""
