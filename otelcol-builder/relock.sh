#!/usr/bin/env bash
# Resolve manifest.yaml anew and write go.mod and go.sum. Needs the network; build.py never does this by itself.
# Where the checksum database does not know every module, set GOSUMDB=off: the committed go.sum pins what was got.
set -euo pipefail
cd "$(dirname "$0")"
here=$PWD
export GOTOOLCHAIN=local CGO_ENABLED=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r manifest.yaml components "$work/"
(cd ocb && go build -mod=readonly -trimpath -o "$work/ocb" go.opentelemetry.io/collector/cmd/builder)
cd "$work"
# OCB resolves and tidies first and then downloads the modules of every platform; the last step may fail for platforms that
# are not built, after go.mod and go.sum are complete. The build below is what decides.
./ocb --config manifest.yaml --skip-compilation || echo "OCB's download step failed; trying to build with what it resolved" >&2
(cd _build && go build -mod=readonly -trimpath -tags grpcnotrace,remove_all_sd -o /dev/null .)
cp _build/go.mod _build/go.sum "$here/"
echo "wrote go.mod and go.sum; commit both together with manifest.yaml" >&2
