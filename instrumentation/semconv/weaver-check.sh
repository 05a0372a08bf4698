#!/bin/sh
# Check the registry with OpenTelemetry's own tool, which no package registry carries: https://github.com/open-telemetry/weaver
set -eu
if ! command -v weaver >/dev/null; then
    echo "weaver-check: skipped, weaver is not on PATH (https://github.com/open-telemetry/weaver/releases)"
    exit 0
fi
exec weaver registry check --registry "$(dirname "$0")/registry" --v2 --future
