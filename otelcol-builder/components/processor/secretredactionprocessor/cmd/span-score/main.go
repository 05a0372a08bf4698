// Command span-score measures what the redaction finds of personal data, on suites whose lines name every span:
//
//	span-score [flags] FILE...
//
// The table goes to the standard output. With -page it is compared with the table in a document; -write puts it there.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"otel-rl.example/otelcol-rl/processor/secretredactionprocessor/detect"
)

const (
	exitBelowThreshold = 1
	exitUsage          = 2
)

type options struct {
	minRecall, minPrecision, minUntouched float64
	page                                  string
	write, show                           bool
	files                                 []string
}

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

func run(arguments []string, input io.Reader, output, problems io.Writer) int {
	chosen, err := parseOptions(arguments, problems)
	if err != nil {
		if err != flag.ErrHelp {
			fmt.Fprintf(problems, "span-score: %v\n", err)
		}
		return exitUsage
	}
	total, err := scoreFiles(chosen.files, input)
	if err != nil {
		fmt.Fprintf(problems, "span-score: %v\n", err)
		return exitUsage
	}
	if chosen.show {
		total.printMisses(output)
	}
	table := total.table()
	fmt.Fprint(output, table)
	if chosen.page != "" {
		if err := keepPage(chosen.page, table, chosen.write); err != nil {
			fmt.Fprintf(problems, "span-score: %v\n", err)
			return exitBelowThreshold
		}
	}
	if total.below(chosen, problems) {
		return exitBelowThreshold
	}
	return 0
}

func parseOptions(arguments []string, problems io.Writer) (options, error) {
	var chosen options
	flags := flag.NewFlagSet("span-score", flag.ContinueOnError)
	flags.SetOutput(problems)
	flags.Float64Var(&chosen.minRecall, "min-recall", 0, "exit 1 when a smaller share of the spans of any class is found exactly")
	flags.Float64Var(&chosen.minPrecision, "min-precision", 0, "exit 1 when a smaller share of the findings of any class is right")
	flags.Float64Var(&chosen.minUntouched, "min-untouched", 0, "exit 1 when a smaller share of the look-alikes is untouched")
	flags.StringVar(&chosen.page, "page", "", "document that has to hold this table between its markers")
	flags.BoolVar(&chosen.write, "write", false, "write the table into that document")
	flags.BoolVar(&chosen.show, "show", false, "print the texts with a miss or a false alarm")
	if err := flags.Parse(arguments); err != nil {
		return chosen, err
	}
	for _, threshold := range []float64{chosen.minRecall, chosen.minPrecision, chosen.minUntouched} {
		if threshold < 0 || threshold > 1 {
			return chosen, fmt.Errorf("a threshold is a share between 0 and 1, not %v", threshold)
		}
	}
	if chosen.files = flags.Args(); len(chosen.files) == 0 {
		return chosen, fmt.Errorf("name the suites to score: files of JSON lines, or - for the standard input")
	}
	return chosen, nil
}

func scoreFiles(files []string, input io.Reader) (*score, error) {
	detector, err := detect.New(detect.Config{PersonalData: detect.PersonalDataClasses})
	if err != nil {
		return nil, err
	}
	total := newScore()
	for _, file := range files {
		if err := scoreFile(total, detector, file, input); err != nil {
			return nil, err
		}
	}
	return total, nil
}
