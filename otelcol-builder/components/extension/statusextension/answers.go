package statusextension

import (
	"encoding/json"
	"net/http"
)

// answer is the JSON body of every path.
type answer struct {
	Status string `json:"status"`
	// Components are those that explain the status; of /status?all, every one.
	Components []componentState `json:"components"`
}

const (
	statusOK       = "ok"
	statusStarting = "not running"
	statusBroken   = "broken"
	statusDegraded = "degraded"
)

// handler serves the three questions; each includes the one before it.
//
//	/live    does the process run: for a liveness probe. Never red because of a backend.
//	/ready   does it take data: for a readiness probe and for scripts that wait. Also at /, where health_check answers.
//	/status  does what it takes arrive: for alerts and people. Red when a component reports an error.
func (e *statusExtension) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /live", func(w http.ResponseWriter, _ *http.Request) { write(w, answer{Status: statusOK}) })
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) { write(w, e.readiness()) })
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { write(w, e.readiness()) })
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) { write(w, e.status(r.URL.Query().Has("all"))) })
	return mux
}

func (e *statusExtension) readiness() answer {
	if !e.running.Load() {
		return answer{Status: statusStarting}
	}
	if broken := e.components.list((*componentState).beyondRepair); len(broken) > 0 {
		return answer{Status: statusBroken, Components: broken}
	}
	return answer{Status: statusOK}
}

func (e *statusExtension) status(all bool) answer {
	found := e.readiness()
	unhealthy := e.components.list((*componentState).unhealthy)
	if found.Status == statusOK && len(unhealthy) > 0 {
		found.Status = statusDegraded
	}
	found.Components = unhealthy
	if all {
		found.Components = e.components.list(func(*componentState) bool { return true })
	}
	return found
}

func write(w http.ResponseWriter, body answer) {
	if body.Components == nil {
		body.Components = []componentState{}
	}
	w.Header().Set("Content-Type", "application/json")
	if body.Status != statusOK {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	// The client went away: nobody is left to tell.
	_ = encoder.Encode(body)
}
