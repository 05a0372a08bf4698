"""The SDK providers and the way of each record to its exporter.

======================  ============================================================
``batching``            bounded queues of spans and log records, and their threads
``config_file``         providers that ``OTEL_CONFIG_FILE`` has set up
``exporter_selection``  exporter of each signal, from the environment
``exporters``           opening exporters by entry-point name
``identity_gate``       delay of the first export until rank and run id are known
``metric_reader``       periodic collection, started by the first measurement
``private_random``      a random generator of our own for the SDK
``processors``          SDK processors in front of the queues
``providers``           tracer, meter and logger provider
``python_warnings``     the filters of Python's warnings, which stay as the program has them
``resource``            resource attributes of this process
``sdk_logging``         the SDK's own log, kept out of the program's output
``start_times``         start times of observable counters
======================  ============================================================
"""
