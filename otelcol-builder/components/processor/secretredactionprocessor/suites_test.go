package secretredactionprocessor

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The values of a line depend on its whole shape, so a line that was edited by hand is not the one of its shape.
func TestTheSuitesAreWhatTheirShapesGenerate(t *testing.T) {
	folder := t.TempDir()
	failOn(t, os.CopyFS(filepath.Join(folder, "shapes"), os.DirFS("testdata/shapes")))
	failOn(t, os.Mkdir(filepath.Join(folder, "personal"), 0o700))
	if said, err := exec.Command("go", "run", "./testdata/generate", folder).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	suites := suitesIn(t, "testdata")
	equal(t, "number of suites", len(suitesIn(t, folder)), len(suites))
	for _, suite := range suites {
		committed, err := os.ReadFile(filepath.Join("testdata", suite))
		failOn(t, err)
		generated, err := os.ReadFile(filepath.Join(folder, suite))
		failOn(t, err)
		if string(generated) != string(committed) {
			t.Errorf("%s is not what its shapes generate: go run ./testdata/generate", suite)
		}
	}
}

// suitesIn returns the suites of a folder, by their paths in it.
func suitesIn(t *testing.T, folder string) []string {
	var found []string
	for _, pattern := range []string{"*.jsonl", "personal/*.jsonl"} {
		files, err := filepath.Glob(filepath.Join(folder, pattern))
		failOn(t, err)
		for _, file := range files {
			name, err := filepath.Rel(folder, file)
			failOn(t, err)
			found = append(found, name)
		}
	}
	return found
}
