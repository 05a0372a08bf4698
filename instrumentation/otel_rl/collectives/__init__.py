"""Collective operations of ``torch.distributed``.

=====================  =========================================================
``first_use``          whether a collective was counted at all
``mode``               when all collectives are seen, and when those of Python only
``recorder``           counters on the hot path
``flight_records``     each launch and each wait, for the flight recorder
``inherited_methods``  replaced methods where a class in Python inherits them
``payload``            the size of a message
``reports``            metrics, step attributes and span events of the counters
``unseen``             collectives that were not seen
``sequence_numbers``   the number of a group's latest collective, as torch counts
``torch_entries``      what is new in a dump of PyTorch's flight recorder
``device_times``       the time of each collective on the device, published
=====================  =========================================================
"""
