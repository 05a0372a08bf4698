package secretredactionprocessor

import (
	"errors"
	"fmt"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configopaque"
)

// What happens to content: prompts, completions, tool arguments and results, exception texts, lines of job logs.
const (
	actionRemove = "remove"
	actionRedact = "redact"
)

const (
	minimumKeyBytes     = 16
	minimumContentBytes = 64
)

// Config of the processor.
type Config struct {
	// Content says what happens to content.
	Content ContentConfig `mapstructure:"content"`
	// RulesFile is a gitleaks TOML file that replaces the built-in rules; empty means built in.
	RulesFile string `mapstructure:"rules_file"`
	// PersonalData names the classes of personal data that are masked.
	PersonalData []string `mapstructure:"personal_data"`
	// Fingerprints says whether masks carry a keyed fingerprint of what they hide.
	Fingerprints FingerprintConfig `mapstructure:"fingerprints"`
	// CacheEntries is the number of texts whose outcome is remembered, as salted hashes.
	CacheEntries int `mapstructure:"cache_entries"`
}

// ContentConfig says what happens to content.
type ContentConfig struct {
	// Action is "remove", or "redact": content passes with its secrets masked.
	Action string `mapstructure:"action"`
	// MaxBytes is the size that one content value keeps with the action "redact".
	MaxBytes int `mapstructure:"max_bytes"`
}

// FingerprintConfig says whether masks carry a keyed fingerprint.
type FingerprintConfig struct {
	Enabled bool `mapstructure:"enabled"`
	// Key is the same on every node of an installation.
	Key configopaque.String `mapstructure:"key"`
}

var _ component.Config = (*Config)(nil)

func createDefaultConfig() component.Config {
	return &Config{
		Content:      ContentConfig{Action: actionRemove, MaxBytes: 8192},
		PersonalData: []string{"email", "phone", "card", "iban"},
		CacheEntries: 65536,
	}
}

// Validate refuses what cannot work; each message names the setting and the way out.
func (c *Config) Validate() error {
	return errors.Join(c.Content.validate(), c.Fingerprints.validate(), c.validateCache())
}

func (c *ContentConfig) validate() error {
	if c.Action != actionRemove && c.Action != actionRedact {
		return fmt.Errorf("content.action is %q: it is either %q or %q", c.Action, actionRemove, actionRedact)
	}
	if c.MaxBytes < minimumContentBytes {
		return fmt.Errorf("content.max_bytes is %d: at least %d are needed, for the marker that tells the original length",
			c.MaxBytes, minimumContentBytes)
	}
	return nil
}

func (c *FingerprintConfig) validate() error {
	if !c.Enabled || len(c.Key) >= minimumKeyBytes {
		return nil
	}
	const remedy = "set OTEL_RL_COLLECTOR_FINGERPRINT_KEY to the same secret of at least 16 bytes on every node" +
		" (make one with `openssl rand -hex 32`), or set fingerprints.enabled to false"
	if c.Key == "" {
		return errors.New("fingerprints are on but there is no key: " + remedy)
	}
	return fmt.Errorf("fingerprints are on but the key has only %d bytes: %s", len(c.Key), remedy)
}

func (c *Config) validateCache() error {
	if c.CacheEntries < 0 {
		return fmt.Errorf("cache_entries is %d: it is 0 (no cache) or more", c.CacheEntries)
	}
	return nil
}
