"""The client of an MLflow tracking server: scalars, parameters and tags of the run, and traces, over REST.

The package ``mlflow`` is not imported. The queues, retries, deadlines and counts of drops are those of the pipeline.

Modules:
    following: what is sent to MLflow, and from when on.
    server: address and credentials, from MLflow's variables.
    destination: what an answer of the server means, and how to mend it.
    api: one request to the server and its reply.
    lookups: asks for the experiment and the run, and changes nothing.
    run: the experiment and the run that this process writes to.
    program_run: the run that the program itself has opened with ``mlflow``.
    names: keys in MLflow's alphabet.
    points: values of one log call, in the queue.
    scalars: writes points, parameters, tags and the status of the run.
    parameters: the parameters and tags of a run.
    traces: sends spans to the server's OTLP route.
    report_upload: uploads the page of ``otel-rl report``.
"""
