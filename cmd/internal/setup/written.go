package setup

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/compliance/lazyregexp"
)

// The names of the files that set-up writes.
const (
	ConfigFile = "writ.yaml"
	EnvFile    = "writ.env"
)

// plain is what YAML and a shell both read as it stands.
var plain = lazyregexp.New(`^-{0,2}[A-Za-z_./][A-Za-z0-9_./@+-]*$`)

// yamlWord writes a string that YAML reads as that string. JSON's form is YAML.
func yamlWord(s string) string {
	if plain().MatchString(s) && !ambiguous[strings.ToLower(strings.TrimLeft(s, "-"))] {
		return s
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return `""` // strings have no errors
	}
	return strings.TrimSpace(b.String())
}

// ambiguous are words that YAML may take for something else.
var ambiguous = map[string]bool{"true": true, "false": true, "yes": true, "no": true, "on": true, "off": true, "null": true, "y": true, "n": true, ".": true, ".inf": true, ".nan": true}

func yamlList(list []string) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = yamlWord(s)
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// configText is a whole configuration: the forge's part, where state and the
// listener are, where state refs live if that isn't the default, and the builder if
// one was named.
func configText(dir, forge, refs string, poll bool, builder []string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "server:\n  state_dir: %s\n  listen: 127.0.0.1:8714\n", yamlWord(filepath.Join(dir, "state")))
	if poll {
		b.WriteString("  intake: poll\n")
	}
	b.WriteString(forge)
	if refs != "" && refs != config.RefsHidden {
		fmt.Fprintf(&b, "refs: %s\n", yamlWord(refs))
	}
	if len(builder) > 0 {
		fmt.Fprintf(&b, "builders:\n  default:\n    argv: %s\n", yamlList(builder))
	} else {
		b.WriteString("# The program that does the work. Without one, writ only says what it would do.\n" +
			"# builders:\n#   default:\n#     argv: [sh, -c, 'echo hello > out.txt']\n")
	}
	return []byte(b.String())
}

// variable is one line of the environment: a name and a file.
type variable struct{ name, path string }

// envText is the environment in the form that systemd's EnvironmentFile and a
// shell both read.
func envText(list []variable) ([]byte, error) {
	var b strings.Builder
	for _, v := range list {
		path := v.path
		if !plain().MatchString(path) {
			if strings.ContainsAny(path, "'\n\r\\") {
				return nil, wrong("Name another with --dir.", "The path %q can't stand in a file of variables.", path)
			}
			path = "'" + path + "'"
		}
		fmt.Fprintf(&b, "%s=%s\n", v.name, path)
	}
	return []byte(b.String()), nil
}

// ReadEnv reads what envText wrote; nothing where there is no such file.
func ReadEnv(path string) (map[string]string, error) {
	out := map[string]string{}
	if !Exists(path) {
		return out, nil
	}
	data, err := ReadKept(path)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(data)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(name, "#") {
			out[name] = strings.Trim(value, "'")
		}
	}
	return out, nil
}
