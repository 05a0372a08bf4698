"""Collective operations of ``torch.distributed``.

============  ============================================================
``recorder``  counters on the hot path
``reports``   metrics, step attributes and span events of the counters
``unseen``    collectives that Python did not issue
``flight_records``  begin and end of each for the flight recorder
============  ============================================================
"""
