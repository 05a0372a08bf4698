package tracebudgetextension

import (
	"errors"
	"fmt"
	"math"
	"time"

	"go.opentelemetry.io/collector/confmap"
)

// Config of the extension.
type Config struct {
	// SpansPerSecond is the most that all gateways together keep; 0 means that there is no budget.
	SpansPerSecond float64 `mapstructure:"spans_per_second"`
	// Gateways is the number of gateways that share the budget evenly.
	Gateways int `mapstructure:"gateways"`
	// Window is the time over which kept spans are counted; the share can rise at its end only.
	Window time.Duration `mapstructure:"window"`
}

// Validate refuses what has no meaning.
func (config *Config) Validate() error {
	var problems []error
	if config.SpansPerSecond < 0 || math.IsNaN(config.SpansPerSecond) || math.IsInf(config.SpansPerSecond, 0) {
		problems = append(problems, fmt.Errorf("spans_per_second is %v; give 0 (no budget) or more", config.SpansPerSecond))
	}
	if config.Gateways < 1 {
		problems = append(problems, fmt.Errorf("gateways is %d; give the number of gateways, at least 1", config.Gateways))
	}
	if config.Window < time.Second {
		problems = append(problems, fmt.Errorf("window is %v; give at least 1s, which is how often traces are decided", config.Window))
	}
	return errors.Join(problems...)
}

// policyConfig is what a policy of type trace_budget says: either a percentage, or that its traces are always kept and
// only counted, so that the budget knows of them.
type policyConfig struct {
	Percentage *float64 `mapstructure:"percentage"`
	Always     bool     `mapstructure:"always"`
}

func parsePolicy(name string, values map[string]any) (policyConfig, error) {
	var parsed policyConfig
	if err := confmap.NewFromStringMap(values).Unmarshal(&parsed); err != nil {
		return parsed, fmt.Errorf("policy %q: %w", name, err)
	}
	if parsed.Always == (parsed.Percentage != nil) {
		return parsed, fmt.Errorf("policy %q: give either percentage or always: true", name)
	}
	if share := parsed.Percentage; share != nil && !(*share >= 0 && *share <= 100) {
		return parsed, fmt.Errorf("policy %q: percentage is %v; give 0 to 100", name, *share)
	}
	return parsed, nil
}
