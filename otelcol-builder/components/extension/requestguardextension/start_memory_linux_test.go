package requestguardextension

import (
	"strings"
	"testing"
)

func TestOnlyReadOnlyPagesOfTheProgramAreReleased(t *testing.T) {
	for line, size := range map[string]int{
		"00400000-04c7a000 r-xp 00000000 fd:00 1 /bin/otelcol-rl":      0x487a000,
		"04c7a000-09a00000 r--p 0487a000 fd:00 1 /bin/otelcol-rl":      0x4d86000,
		"09a00000-09b00000 rw-p 0960a000 fd:00 1 /bin/otelcol-rl":      0,
		"09a00000-09b00000 r--p 0960a000 fd:00 1 /lib/libc.so":         0,
		"7f00-7f80 r--p 0960a000 fd:00 1 /other/bin/otelcol-rl.backup": 0,
		"7ffd0000-7ffe0000 rw-p 00000000 00:00 0 [stack]":              0,
		"not a line": 0,
	} {
		if _, found := readOnlyRange(line, "/bin/otelcol-rl"); found != size {
			t.Errorf("%s: %x, not %x", line, found, size)
		}
	}
}

func TestPagesThatDifferFromTheFileAreKept(t *testing.T) {
	for line, unchanged := range map[string]bool{
		"Anonymous:             0 kB": true,
		"Anonymous:           144 kB": false,
		"AnonHugePages:         0 kB": false,
		"Rss:                   0 kB": false,
	} {
		if isUnchanged(line) != unchanged {
			t.Error(line)
		}
	}
}

func TestTheProgramGoesOnAfterItsPagesWereReleased(t *testing.T) {
	g, _ := newTestGuard(t)
	for range 3 {
		if err := g.Ready(); err != nil {
			t.Fatal(err)
		}
		if strings.Repeat("a", 3) != "aaa" {
			t.Fatal("the program's constants are damaged")
		}
	}
	if err := g.NotReady(); err != nil {
		t.Fatal(err)
	}
}
