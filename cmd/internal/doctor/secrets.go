package doctor

import (
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/forge/github"
)

// How strong a secret is that signs webhooks: as many characters as 16 random
// bytes have in hexadecimal digits, of at least so many different ones. Random
// hexadecimal digits have fewer in one case of a million.
const (
	leastSecret    = 32
	leastDifferent = 8
)

// signingPrefix and signingBytes are the form of a key with which GitLab signs.
const (
	signingPrefix = "whsec_"
	signingBytes  = 32
)

// secret is a secret of the configuration.
type secret struct {
	name  string // of the environment variable
	key   string // of the configuration
	check func(value string) (fault, remedy string)
	lines bool // it has several
}

// secretsOf lists those that a configuration names.
func secretsOf(c config.Config) (list []secret) {
	poll := c.Server.Intake == config.IntakePoll
	add := func(key, name string, lines bool, check func(string) (string, string)) {
		if name != "" {
			list = append(list, secret{name, key, check, lines})
		}
	}
	hooks := func(key string, names []string, check func(string) (string, string)) {
		for _, name := range names {
			if !poll {
				add(key, name, false, check)
			}
		}
	}
	if f := c.Forges.GitHub; f.On() {
		if f.AppID != 0 {
			add("forges.github.private_key", f.PrivateKey, true, privateKey)
		}
		add("forges.github.token", f.Token, false, anything)
		hooks("forges.github.hook_secrets", f.HookSecrets, strong)
	}
	if f := c.Forges.GitLab; f.On() {
		add("forges.gitlab.token", f.Token, false, anything)
		hooks("forges.gitlab.hook_secrets", f.HookSecrets, strong)
		hooks("forges.gitlab.hook_keys", f.HookKeys, signing)
		for _, h := range f.Hooks {
			hooks("forges.gitlab.hooks", []string{h.Key}, signing)
			hooks("forges.gitlab.hooks", []string{h.Secret}, strong)
		}
	}
	if f := c.Forges.Local; f.On() {
		add("forges.local.token", f.Token, false, anything)
		hooks("forges.local.hook_secrets", f.HookSecrets, strong)
	}
	for _, name := range c.Credentials() {
		add("credential.secret of an egress", name, false, anything)
	}
	return list
}

func anything(string) (string, string) { return "", "" }

const makeSecret = "Make one with `openssl rand -hex 32`, and set it here and at the forge; hook_secrets may name both while it is replaced."

// strong asks of a secret what random ones have.
func strong(value string) (fault, remedy string) {
	different := map[rune]bool{}
	for _, r := range value {
		different[r] = true
	}
	switch {
	case len(value) < leastSecret:
		return "is shorter than 32 characters: it could be guessed", makeSecret
	case len(different) < leastDifferent:
		return "repeats a few characters: it could be guessed", makeSecret
	}
	return "", ""
}

func signing(value string) (fault, remedy string) {
	key, found := strings.CutPrefix(value, signingPrefix)
	raw, err := base64.StdEncoding.DecodeString(key)
	if !found || err != nil || len(raw) != signingBytes {
		return "is no signing token of GitLab's: whsec_ and 32 bytes in base64",
			"Make one with `echo whsec_$(openssl rand -base64 32)`, or let `writ setup gitlab` make it."
	}
	return "", ""
}

func privateKey(value string) (fault, remedy string) {
	if err := (github.App{Key: []byte(value)}).Check(); err != nil {
		return "can't be used: " + err.Error(), "On the App's page, General, Private keys: generate one, and give the .pem file with _FILE."
	}
	return "", ""
}

// Secrets checks those of the configuration: there, strong, each used once, and
// in files that others can't read. None is ever part of a result.
func Secrets(c config.Config, getenv func(string) string, each func(Check)) []Check {
	r := &runner{each: each}
	list := secretsOf(c)
	if len(list) == 0 {
		r.skip("The configuration names none.", NameSecrets)
	}
	seen := map[string]string{}
	for _, s := range list {
		r.subject = s.name
		one := s.judge(getenv, seen)
		if key := ShownBy(MountsOf(c), getenv(s.name+"_FILE")); key != "" {
			one = bad("Put the file elsewhere, or mount only what the program needs.", "A sandbox has its file: %s shows it.", key)
		}
		r.add(NameSecrets, one)
	}
	if f := c.Forges.GitLab; c.Server.Intake != config.IntakePoll && len(f.Repositories) > 1 && len(f.HookSecrets)+len(f.HookKeys) > 0 {
		r.subject = "forges.gitlab"
		r.add(NameSecrets, warn("Give each project's hook a secret of its own under `forges.gitlab.hooks`, as docs/install-gitlab.md shows; `writ setup gitlab` makes them.",
			"One secret speaks for all %d projects: who manages one of them can tell writ of the others.", len(f.Repositories)))
	}
	return r.done
}

// SecretValues are the values of those that can be read, to be hidden from
// whatever is shown.
func SecretValues(c config.Config, getenv func(string) string) (values []string) {
	for _, s := range secretsOf(c) {
		if value, err := s.read(getenv); err == nil {
			values = append(values, value)
		}
	}
	return values
}

func (s secret) read(getenv func(string) string) (string, error) {
	if s.lines {
		return config.SecretText(getenv, s.name)
	}
	return config.Secret(getenv, s.name)
}

func (s secret) judge(getenv func(string) string, seen map[string]string) result {
	value, err := s.read(getenv)
	if err != nil {
		return bad("Set it, or "+s.name+"_FILE, for writ serve and for `writ doctor` alike; "+s.key+" names it.", "%s", sentence(err))
	}
	if fault, remedy := s.check(value); fault != "" {
		return bad(remedy, "The secret of %s %s.", s.key, strings.TrimSuffix(fault, "."))
	}
	if other := seen[value]; other != "" {
		return bad("Give each a value of its own: who learns one would have the other.", "It is the same as %s.", other)
	}
	seen[value] = s.name
	users := ""
	if getenv("KUBERNETES_SERVICE_HOST") != "" {
		users = "/etc"
	}
	return modeOf(getenv(s.name+"_FILE"), users)
}

// sentence is an error as one, with a capital letter.
func sentence(err error) string {
	text := plain(err)
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// modeOf looks at who else may read a secret's file; "" is a variable. In a pod the
// files of users list everybody there is.
func modeOf(path, users string) result {
	if path == "" {
		return ok("It is set.")
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return bad("See why the file goes away.", "The file was read, and is gone.")
	}
	if err != nil {
		return bad("Check the file's owner and mode.", "The file can't be looked at.")
	}
	mode := info.Mode().Perm()
	switch {
	case mode&0o022 != 0:
		return bad("chmod 600 "+path+", and make a new secret if others use this machine.", "Others may write its file (mode %04o).", mode)
	case mode&0o004 != 0:
		return bad("chmod 600 "+path+", and make a new secret if others use this machine.", "Everybody on this machine may read its file (mode %04o).", mode)
	case mode&0o040 != 0 && (users == "" || !ownGroup(info, users)):
		return warn("chmod 600 "+path+"; or leave it, where the group is writ's alone.", "A group may read its file (mode %04o).", mode)
	case mode&0o040 != 0:
		return ok("It is set, in a file of a group that no other user is in.")
	}
	return ok("It is set, in a file that only its owner reads.")
}

// ownGroup reports whether nobody but this process and root is in a file's group, or
// owns the file, by passwd and group below etc. Where they can't be read somebody may
// be.
func ownGroup(info fs.FileInfo, etc string) bool {
	st, is := info.Sys().(*syscall.Stat_t)
	if !is || st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return false
	}
	users, unread := entries(filepath.Join(etc, "passwd"), 7)
	groups, unreadToo := entries(filepath.Join(etc, "group"), 4)
	gid, ours := strconv.FormatUint(uint64(st.Gid), 10), []string{""}
	for _, u := range users {
		if u[2] == "0" || u[2] == strconv.Itoa(os.Geteuid()) {
			ours = append(ours, u[0])
		} else if u[3] == gid {
			return false
		}
	}
	for _, g := range groups {
		for _, member := range strings.Split(g[3], ",") {
			if g[2] == gid && !slices.Contains(ours, member) {
				return false
			}
		}
	}
	return unread == nil && unreadToo == nil
}

// entries are the lines of passwd or group, each of so many fields.
func entries(path string, fields int) (list [][]string, err error) {
	text, err := os.ReadFile(path)
	for line := range strings.Lines(string(text)) {
		entry := strings.Split(strings.TrimSuffix(line, "\n"), ":")
		if len(entry) != fields {
			return nil, errors.New("a line has another form")
		}
		list = append(list, entry)
	}
	return list, err
}
