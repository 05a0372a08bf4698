"""The SDK providers and the way of each record to its exporter.

======================  ============================================================
``batching``            bounded queues of spans and log records
``config_file``         providers that ``OTEL_CONFIG_FILE`` sets up
``destination``         where an exporter delivers, in words
``exporter_selection``  exporter of each signal, from the environment
``exporters``           opening exporters by entry-point name
``identity_gate``       delay of the first export until rank and run id are known
``io_thread``           the two threads that do input and output
``last_delivery``       the last delivery of a thread's tasks, which share its deadline
``metric_reader``       periodic collection, started by the first measurement
``otlp_answer``         what the answer to an OTLP request says of what was sent
``otlp_exporter``       an OTLP exporter with what the destination answered
``outage``              the line about a destination that cannot be reached
``presence``            what a process shows on disk before its first record
``private_random``      a random generator of our own for the SDK
``processors``          SDK processors in front of the queues, and those of the program
``program_log``         the program's own log as log records
``prompt_delivery``     what is new leaves before the result of a call, in a worker that may be killed
``providers``           tracer, meter and logger provider
``python_warnings``     the filters of Python's warnings, which stay as the program has them
``redaction``           the user's redaction of what others record
``resource``            resource attributes of this process
``sdk_metrics``         queues and exporters observed as ``otel.sdk.*``
``sdk_logging``         the SDK's own log, kept out of the program's output
``sink``                one exporter, and the account of what it delivered
``start_times``         start times of observable counters
``undelivered``         the run's files as the place of what no destination took
``unencodable``         items that cost a batch its encoding
======================  ============================================================
"""
