"""Collective operations of ``torch.distributed``.

==================  ============================================================
``mode``            when all collectives are seen, and when those of Python only
``recorder``        counters on the hot path
``flight_records``  begin and end of each, and of the waits, for the flight recorder
``reports``         metrics, step attributes and span events of the counters
``unseen``          collectives that were not seen
==================  ============================================================
"""
