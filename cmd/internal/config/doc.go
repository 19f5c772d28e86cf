// Package config reads the operator's configuration: one YAML file, strictly,
// into one struct whose every key has a documented default.
//
// The struct is the only description of the file. [Load] and [Parse] read by
// it, [Reference] prints the manual page from it, and docs/configuration.md is
// held to that by a test. All faults of a file are reported at once, each with
// file, line, key and what to do.
//
// The package reads files and nothing else: no environment, no flags, no
// defaults that depend on the machine. It holds no secrets: a file names the
// environment variables whose values are to be hidden, never the values.
package config
