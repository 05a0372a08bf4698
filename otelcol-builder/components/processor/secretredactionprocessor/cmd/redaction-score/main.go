// Command redaction-score measures what the redaction finds, on a suite of JSON lines:
//
//	redaction-score [flags] FILE...
//
// Each line is an object: text, secrets (those that must not stand in the output; none for a look-alike, which has to
// come out byte for byte), placement (body, attribute or key:<attribute key>; body when absent) and class.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

const (
	exitBelowThreshold = 1
	exitUsage          = 2
)

type options struct {
	minRecall, minUntouched float64
	rulesFile               string
	personalData            []string
	show                    bool
	files                   []string
}

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

func run(arguments []string, input io.Reader, output, problems io.Writer) int {
	chosen, err := parseOptions(arguments, problems)
	if err != nil {
		if err != flag.ErrHelp {
			fmt.Fprintf(problems, "redaction-score: %v\n", err)
		}
		return exitUsage
	}
	redactor, err := newRedactor(chosen)
	if err != nil {
		fmt.Fprintf(problems, "redaction-score: %v\n", err)
		return exitUsage
	}
	total := newScore(chosen.show)
	for _, file := range chosen.files {
		if err := scoreFile(total, redactor, file, input); err != nil {
			fmt.Fprintf(problems, "redaction-score: %v\n", err)
			return exitUsage
		}
	}
	total.print(output)
	if total.below(chosen.minRecall, chosen.minUntouched, problems) {
		return exitBelowThreshold
	}
	return 0
}

func parseOptions(arguments []string, problems io.Writer) (options, error) {
	var chosen options
	flags := flag.NewFlagSet("redaction-score", flag.ContinueOnError)
	flags.SetOutput(problems)
	flags.Float64Var(&chosen.minRecall, "min-recall", 0, "exit 1 when a smaller share of the secrets is found")
	flags.Float64Var(&chosen.minUntouched, "min-untouched", 0, "exit 1 when a smaller share of the look-alikes is untouched")
	flags.StringVar(&chosen.rulesFile, "rules-file", "", "TOML file in gitleaks' format that replaces its built-in rules")
	personal := flags.String("personal-data", "email,phone,card,iban", "classes of personal data to find, comma separated; empty for none")
	flags.BoolVar(&chosen.show, "show", false, "print the missed texts; without it only a hash of each")
	if err := flags.Parse(arguments); err != nil {
		return chosen, err
	}
	for _, threshold := range []float64{chosen.minRecall, chosen.minUntouched} {
		if threshold < 0 || threshold > 1 {
			return chosen, fmt.Errorf("a threshold is a share between 0 and 1, not %v", threshold)
		}
	}
	if *personal != "" {
		chosen.personalData = strings.Split(*personal, ",")
	}
	chosen.files = flags.Args()
	if len(chosen.files) == 0 {
		return chosen, fmt.Errorf("name the suite to score: a file of JSON lines, or - for the standard input")
	}
	return chosen, nil
}
