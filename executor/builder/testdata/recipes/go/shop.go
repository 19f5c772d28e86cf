// Package shop uses a dozen modules.
package shop

import (
	_ "github.com/BurntSushi/toml"
	_ "github.com/davecgh/go-spew/spew"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/google/uuid"
	_ "github.com/mattn/go-isatty"
	_ "github.com/mattn/go-runewidth"
	_ "github.com/pmezard/go-difflib/difflib"
	_ "github.com/spf13/pflag"
	_ "golang.org/x/mod/semver"
	_ "golang.org/x/sync/errgroup"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/text/unicode/norm"
	_ "gopkg.in/yaml.v3"
)
