//go:build race

package detect

// underRace: the race detector changes what things cost.
const underRace = true
