// Command ledger proves what a chain of collectors does to spans: it sends spans that carry their run, rank and sequence number,
// receives them at the other end as an OTLP backend, and accounts for each: lost, duplicated, altered, split between gateways.
//
// It prints the addresses of its control interface and of its backend as one line of JSON and then obeys:
//
//	POST /send             an order: a run starts
//	POST /stop?run=R       the run ends with the batches it has begun
//	GET  /report?run=R     the account of the run
//	GET  /progress?run=R   how many spans were acknowledged and received, at less cost
//	POST /backend          a conduct: how the backend behaves from now on
//	GET  /counts           requests to the backend, and the sums of what it got as metrics
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
)

type control struct {
	store   *store
	backend *backend

	mu       sync.Mutex
	sendings map[string]*sending
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	kept := newStore()
	receiver, err := newBackend(kept)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	commands := &control{store: kept, backend: receiver, sendings: map[string]*sending{}}
	routes := http.NewServeMux()
	routes.HandleFunc("POST /send", commands.send)
	routes.HandleFunc("POST /stop", commands.stop)
	routes.HandleFunc("GET /report", commands.report)
	routes.HandleFunc("GET /progress", commands.progress)
	routes.HandleFunc("POST /backend", commands.behave)
	routes.HandleFunc("GET /counts", commands.counts)
	fmt.Fprintf(os.Stdout, `{"control": "http://%s", "backend": "http://%s"}`+"\n", listener.Addr(), receiver.address)
	return http.Serve(listener, routes)
}

func (c *control) send(answer http.ResponseWriter, request *http.Request) {
	var wanted order
	if !decode(answer, request, &wanted) {
		return
	}
	if wanted.Run == "" || wanted.Ranks == 0 || wanted.SpansPerBatch == 0 || wanted.SpansPerTrace == 0 {
		http.Error(answer, "run, ranks, spans_per_batch and spans_per_trace are needed", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sendings[wanted.Run] != nil {
		http.Error(answer, "this run has been sent already", http.StatusConflict)
		return
	}
	c.sendings[wanted.Run] = startSending(wanted, c.store.open(wanted.Run, wanted.SpansPerTrace))
	reply(answer, struct{}{})
}

func (c *control) stop(answer http.ResponseWriter, request *http.Request) {
	c.mu.Lock()
	found := c.sendings[request.FormValue("run")]
	c.mu.Unlock()
	if found == nil {
		http.Error(answer, "no such run", http.StatusNotFound)
		return
	}
	found.stop()
	found.ranks.Wait()
	reply(answer, found.book.report())
}

func (c *control) report(answer http.ResponseWriter, request *http.Request) {
	found, err := c.store.find(request.FormValue("run"))
	if err != nil {
		http.Error(answer, err.Error(), http.StatusNotFound)
		return
	}
	reply(answer, found.report())
}

func (c *control) progress(answer http.ResponseWriter, request *http.Request) {
	found, err := c.store.find(request.FormValue("run"))
	if err != nil {
		http.Error(answer, err.Error(), http.StatusNotFound)
		return
	}
	reply(answer, found.progress())
}

func (c *control) behave(answer http.ResponseWriter, request *http.Request) {
	var wanted conduct
	if !decode(answer, request, &wanted) {
		return
	}
	if err := c.backend.behave(wanted); err != nil {
		http.Error(answer, err.Error(), http.StatusInternalServerError)
		return
	}
	reply(answer, struct{}{})
}

func (c *control) counts(answer http.ResponseWriter, _ *http.Request) {
	requests, failed, cut := c.backend.counts()
	reply(answer, map[string]any{"requests": requests, "failed": failed, "cut_spans": cut, "sums": c.store.sums()})
}

func decode(answer http.ResponseWriter, request *http.Request, into any) bool {
	reader := json.NewDecoder(request.Body)
	reader.DisallowUnknownFields()
	if err := reader.Decode(into); err != nil {
		http.Error(answer, err.Error(), http.StatusBadRequest)
		return false
	}
	return true
}

func reply(answer http.ResponseWriter, with any) {
	answer.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(answer).Encode(with); err != nil {
		log.Print(err)
	}
}
