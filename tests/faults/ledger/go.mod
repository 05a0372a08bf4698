module otel-rl.example/ledger

go 1.26
