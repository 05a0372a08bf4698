package statusextension

import (
	"sort"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/pipeline"

	"otel-rl.example/otelcol-rl/internal/addresses"
)

// componentState is the last status of one component instance, as the JSON answer shows it.
type componentState struct {
	Component string    `json:"component"`
	Pipelines []string  `json:"pipelines"`
	Status    string    `json:"status"`
	Reason    string    `json:"reason,omitempty"`
	Since     time.Time `json:"since"`

	status componentstatus.Status
}

func (state *componentState) unhealthy() bool {
	return componentstatus.StatusIsError(state.status)
}

// beyondRepair: the component itself is broken, and not what it talks to.
func (state *componentState) beyondRepair() bool {
	return state.status == componentstatus.StatusPermanentError || state.status == componentstatus.StatusFatalError
}

// components holds the last status of every component instance. Safe for concurrent use.
type components struct {
	mutex  sync.Mutex
	states map[componentstatus.InstanceID]*componentState
}

func newComponents() *components {
	return &components{states: map[componentstatus.InstanceID]*componentState{}}
}

// record keeps the event; Since is when the component entered this status, not when it last repeated it.
func (c *components) record(source *componentstatus.InstanceID, event *componentstatus.Event) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	since := event.Timestamp()
	if last, known := c.states[*source]; known && last.status == event.Status() {
		since = last.Since
	}
	reason := ""
	if err := event.Err(); err != nil {
		reason = addresses.WithoutSecrets(err.Error())
	}
	c.states[*source] = &componentState{
		Component: name(source),
		Pipelines: pipelines(source),
		Status:    strings.TrimPrefix(event.Status().String(), "Status"),
		Reason:    reason,
		Since:     since,
		status:    event.Status(),
	}
}

// list returns copies of the states that are wanted, sorted by component and pipelines.
func (c *components) list(wanted func(*componentState) bool) []componentState {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	found := []componentState{}
	for _, state := range c.states {
		if wanted(state) {
			found = append(found, *state)
		}
	}
	sort.Slice(found, func(i, j int) bool { return sortKey(found[i]) < sortKey(found[j]) })
	return found
}

func sortKey(state componentState) string {
	return state.Component + " " + strings.Join(state.Pipelines, " ")
}

func name(source *componentstatus.InstanceID) string {
	return strings.ToLower(source.Kind().String()) + ":" + source.ComponentID().String()
}

func pipelines(source *componentstatus.InstanceID) []string {
	names := []string{}
	source.AllPipelineIDs(func(id pipeline.ID) bool {
		names = append(names, id.String())
		return true
	})
	return names
}
