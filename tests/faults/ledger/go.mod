module otel-rl.dev/ledger

go 1.26
