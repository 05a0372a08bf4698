package secretredactionprocessor

import (
	"strings"
	"sync"
	"sync/atomic"
)

// maximumKnownKeys bounds what is remembered of attribute keys; further keys are looked at each time.
const maximumKnownKeys = 4096

// keyFacts is what an attribute key says about its value.
type keyFacts struct {
	treatment treatment
	// secret: the value is a secret whatever it looks like.
	secret bool
	// plain: by convention the value is an id or one of a set of names. A value that has another form is scanned all the same.
	plain bool
}

// plainKeys are keys of the registry and of the conventions whose values are ids, versions or one of a set of names.
var plainKeys = func() map[string]bool {
	set := map[string]bool{}
	for _, key := range strings.Fields(`
		error.type exception.type event.name gen_ai.conversation.id gen_ai.operation.name gen_ai.output.type
		gen_ai.provider.name gen_ai.system gen_ai.request.model gen_ai.response.finish_reasons gen_ai.response.id
		gen_ai.response.model gen_ai.token.type gen_ai.tool.call.id gen_ai.tool.type gen_ai.evaluation.name
		host.arch host.id http.request.method network.transport network.type os.type otel.status_code process.pid
		rl.algorithm rl.group.id rl.inference.weight_version rl.job.id rl.launcher rl.phase rl.policy.version rl.reward.name
		rl.role rl.rollout.id rl.run.id rl.sample.id rl.system rl.system.name rl.trajectory.id rl.trainer.metric.key rpc.system
		service.instance.id service.name service.namespace service.version span.kind
		telemetry.distro.name telemetry.distro.version telemetry.sdk.language telemetry.sdk.name telemetry.sdk.version
		torch.distributed.group.name torch.distributed.operation`) {
		set[key] = true
	}
	return set
}()

// isPlainKey says whether values under the key are ids or names by convention.
func isPlainKey(key string) bool {
	return plainKeys[key] || strings.HasSuffix(key, ".id") || strings.HasSuffix(key, "_id") || strings.HasPrefix(key, "code.")
}

// keyBook remembers the facts of keys that hold nothing to be masked. Readers take no lock.
type keyBook struct {
	known atomic.Pointer[map[string]keyFacts]
	mutex sync.Mutex
}

func newKeyBook() *keyBook {
	book := &keyBook{}
	book.known.Store(&map[string]keyFacts{})
	return book
}

func (b *keyBook) get(key string) (keyFacts, bool) {
	facts, known := (*b.known.Load())[key]
	return facts, known
}

func (b *keyBook) put(key string, facts keyFacts) {
	if len(key) > 256 || len(*b.known.Load()) >= maximumKnownKeys {
		return
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	before := *b.known.Load()
	after := make(map[string]keyFacts, len(before)+1)
	for each, of := range before {
		after[each] = of
	}
	after[strings.Clone(key)] = facts
	b.known.Store(&after)
}

const (
	shortestSecret = 6
	shortWord      = 15
	longestID      = 64
)

// holdsNothing says, without scanning, that a text can hold neither a secret nor personal data.
func holdsNothing(text string, plainKey bool) bool {
	if len(text) < shortestSecret {
		return true
	}
	if len(text) <= shortWord && onlyWord(text) {
		return true
	}
	return plainKey && len(text) <= longestID && onlyID(text)
}

func onlyWord(text string) bool {
	for i := range len(text) {
		if c := text[i] | 0x20; (c < 'a' || c > 'z') && text[i] != '.' && text[i] != '_' && text[i] != '/' && text[i] != '-' {
			return false
		}
	}
	return true
}

// onlyID: decimal or hexadecimal digits, also in the groups of a UUID.
func onlyID(text string) bool {
	for i := range len(text) {
		c := text[i]
		if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'f') && c != '-' {
			return false
		}
	}
	return true
}
