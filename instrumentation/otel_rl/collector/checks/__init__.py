"""The problems of a merged configuration; a problem is one sentence with its reason and fix.

Modules:
    structure: references, pipelines and component types, on any machine.
    components: the component types in the manifest of otelcol-rl.
    host: files, folders, ports and queues on this machine.
    wire: what travels in plaintext, and secrets written into the configuration.
    listeners: addresses of the collector's own that collide, or that are open to everybody.
    variable_values: the collector's variables that are unknown or have a value that cannot work.
    removed_variables: the variables of former versions, each with its replacement.
    durations: durations as the collector writes them.
    settings: settings that a site's own file has to give, and values that cannot work.
    destinations: exporters that send to the collector itself, or twice to one gateway.
"""
