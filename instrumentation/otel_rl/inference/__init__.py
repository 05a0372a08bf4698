"""One boundary for all model calls.

=============  ============================================================
``calls``      one span and one set of metrics per call
``ownership``  spans of other instrumentors for the same call
=============  ============================================================
"""
