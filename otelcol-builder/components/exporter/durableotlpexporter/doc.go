// Package durableotlpexporter is what the exporters durable_otlp_grpc and durable_otlp_http share.
//
// Inside is the stock OTLP exporter without its queue and its retries; outside is the collector's own exporterhelper with a
// queue and retries that never give up. Between the two every answer of the endpoint is judged: what the endpoint will take
// later waits, what it refuses for good is looked for by halving the batch and written to a dead-letter file, and nothing is
// ever dropped without being counted.
package durableotlpexporter // import "otel-rl.example/otelcol-rl/exporter/durableotlpexporter"
