#!/bin/sh
# Check the registry with OpenTelemetry's own tool, which no package registry carries: https://github.com/open-telemetry/weaver
set -eu
if ! command -v weaver >/dev/null; then
    echo "weaver-check: skipped, weaver is not on PATH (https://github.com/open-telemetry/weaver/releases)"
    exit 0
fi
status=0
output=$(weaver registry check --registry "$(dirname "$0")/definitions" --v2 --future 2>&1) || status=$?
printf '%s\n' "$output"
if [ "$status" -ne 0 ]; then
    # The strictest rules report the form itself as an error until weaver declares it stable; nothing else may be wrong.
    errors=$(printf '%s\n' "$output" | grep '×' || true)
    if [ -z "$errors" ] || printf '%s\n' "$errors" | grep -qv 'File format `definition/2` is not yet stable'; then
        exit "$status"
    fi
fi
echo "weaver-check: the registry is well"
