package main

import (
	"fmt"
	"os"
	"strings"
)

const (
	pageBegin = "<!-- begin scores of personal data -->\n"
	pageEnd   = "<!-- end scores of personal data -->"
)

// keepPage compares the table of a document with this one, or writes it there.
func keepPage(file, table string, write bool) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, begun := strings.Cut(string(content), pageBegin)
	present, after, ended := strings.Cut(rest, pageEnd)
	if !begun || !ended {
		return fmt.Errorf("%s has no markers %q and %q", file, pageBegin, pageEnd)
	}
	wanted := "\n" + table + "\n"
	if present == wanted {
		return nil
	}
	if !write {
		return fmt.Errorf("the scores in %s are not these: write them with -write", file)
	}
	return os.WriteFile(file, []byte(before+pageBegin+wanted+pageEnd+after), 0o644)
}
