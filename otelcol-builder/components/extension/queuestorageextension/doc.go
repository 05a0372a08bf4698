// Package queuestorageextension is the extension queue_storage: the disk queues of the stock file_storage, made safe where that
// one loses data or cannot start.
//
//   - A folder belongs to one collector. A second one is told so, with the folder's name.
//   - A damaged file stops nobody: what can be read of it moves into a new file, and the old one is kept beside it.
//   - Items that were under way when the collector ended go back to their place in the queue in one step.
//   - A full disk does not make the queue forget an item that it hands out.
//
// Files are those of file_storage: a collector can go from one to the other and back.
package queuestorageextension // import "otel-rl.example/otelcol-rl/extension/queuestorageextension"
