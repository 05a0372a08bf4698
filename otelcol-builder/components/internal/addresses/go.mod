module otel-rl.example/otelcol-rl/internal/addresses

go 1.26.0
