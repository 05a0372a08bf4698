//go:build !race

package detect

const underRace = false
