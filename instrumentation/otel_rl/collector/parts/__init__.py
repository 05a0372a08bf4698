"""The parts of a collector configuration.

Modules:
    choices: the roles, sinks and options that can be chosen, and the parts of a selection.
    credentials: the generated part with the credential files to check and the extensions to start.
    files: a part as name and text, and the finder of the shipped and the site's own files.
    gateways: the parts that ``--gateways N`` generates.
    merge: several parts as one configuration, as values and as text.
    variables: the environment variables in a configuration and their values.
"""
