"""The parts of a collector configuration.

Modules:
    choices: the roles, sinks and options that can be chosen, and the parts of a selection.
    credentials: the generated part with the credential files to check and the extensions to start.
    files: a part as name and text, and the finder of the shipped part files.
    gateways: the parts that ``--gateways N`` generates.
    listen_address: the address of the receivers where it is one of IPv6.
    merge: several parts as one configuration, as values and as text.
    sink_urls: the sinks of the command line, and the URLs that replace their variables.
    only_sink: the generated part for a sink without others beside it, which need not drop.
    own_files: a site's own parts, read and checked.
    variables: the environment variables in a configuration and their values.
"""
