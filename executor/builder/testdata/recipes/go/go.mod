module example.org/shop

go 1.26.0

require (
	github.com/BurntSushi/toml v1.6.0
	github.com/davecgh/go-spew v1.1.1
	github.com/google/go-cmp v0.7.0
	github.com/google/uuid v1.6.0
	github.com/mattn/go-isatty v0.0.24
	github.com/mattn/go-runewidth v0.0.31
	github.com/pmezard/go-difflib v1.0.0
	github.com/spf13/pflag v1.1.0
	golang.org/x/mod v0.43.0
	golang.org/x/sync v0.25.0
	golang.org/x/sys v0.50.0
	golang.org/x/text v0.44.0
	gopkg.in/yaml.v3 v3.0.1
)

require github.com/clipperhouse/uax29/v2 v2.2.0 // indirect
