package credentialfilesextension

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Config says which files have to be good. Each map goes from what names the file, such as an environment variable, to
// its path; messages carry the name, never the content.
type Config struct {
	// Required files: a path that is empty is refused.
	Required Files `mapstructure:"required"`
	// Optional files: a path that is empty is passed over.
	Optional Files `mapstructure:"optional"`
}

// Files by what they hold.
type Files struct {
	// Certificates that this process shows to its peers, in PEM.
	Certificates map[string]string `mapstructure:"certificates"`
	// Authorities are certificates that vouch for peers, in PEM.
	Authorities map[string]string `mapstructure:"authorities"`
	// Keys are private keys.
	Keys map[string]string `mapstructure:"keys"`
	// Secrets are tokens and passwords.
	Secrets map[string]string `mapstructure:"secrets"`
}

// Validate reads every file, and lists all that is wrong.
func (config *Config) Validate() error {
	now := time.Now()
	return errors.Join(append(config.Required.problems(now, true), config.Optional.problems(now, false)...)...)
}

func (files *Files) problems(now time.Time, required bool) []error {
	valid := func(content []byte) error { return allValid(content, now) }
	oneValid := func(content []byte) error { return anyValid(content, now) }
	kinds := []struct {
		what  string
		paths map[string]string
		check func(string) error
	}{
		{"certificate", files.Certificates, func(path string) error { return readable(path, valid) }},
		{"certificate authority", files.Authorities, func(path string) error { return readable(path, oneValid) }},
		{"key", files.Keys, func(path string) error { return private(path) }},
		{"token or password", files.Secrets, func(path string) error { return private(path) }},
	}
	var problems []error
	for _, kind := range kinds {
		for _, name := range slices.Sorted(maps.Keys(kind.paths)) {
			path := kind.paths[name]
			if path == "" {
				if required {
					problems = append(problems, fmt.Errorf("%s is not set: name the file of the %s", name, kind.what))
				}
			} else if err := kind.check(path); err != nil {
				problems = append(problems, fmt.Errorf("%s: %s %w", name, path, err))
			}
		}
	}
	return problems
}
