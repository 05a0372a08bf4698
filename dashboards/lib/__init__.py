"""The thin layer over grafanalib: names from the registry, query builders, panels, layout, rendering, rules."""
