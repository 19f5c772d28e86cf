package setup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/github"
)

// acceptor trades a code and keeps what comes of it. What GitHub has given is
// not asked for again: when it can't be kept, the next call tries to keep it.
func (g *GitHub) acceptor(convert func(context.Context, string) (github.Made, error), made chan<- kept) func(context.Context, string) (madeApp, *refusal) {
	var mu sync.Mutex
	return func(ctx context.Context, code string) (madeApp, *refusal) {
		mu.Lock()
		defer mu.Unlock()
		app := g.unkept.Load()
		if app == nil {
			got, err := convert(ctx, code)
			if err != nil {
				no := refusedCode(err)
				g.Say("%s\n%s\n", no.Text, no.Remedy)
				return madeApp{}, no
			}
			app = &kept{ID: got.ID, Slug: got.Slug, Page: got.Page, Key: string(got.Key), HookSecret: got.HookSecret}
			g.unkept.Store(app)
		}
		if err := g.keep(*app); err != nil {
			no := &refusal{Text: "GitHub has made the App, and its credentials could not be kept: " + err.Error(), Remedy: "Leave the terminal as it is, mend that, and try again: GitHub gives the key only once."}
			var e *Error
			if errors.As(err, &e) {
				no.Remedy = e.Remedy + " " + no.Remedy
			}
			g.Say("%s\n%s\n", no.Text, no.Remedy)
			return madeApp{}, no
		}
		g.unkept.Store(nil)
		made <- *app
		return madeApp{app.Slug, g.path(githubKeyFile), app.install(), g.Repositories}, nil
	}
}

func (k kept) install() string { return k.Page + "/installations/new" }

// lost says what is to be done about an App that GitHub has made and that isn't
// all in its files; nil where there is none.
func (g *GitHub) lost() error {
	app := g.unkept.Load()
	if app == nil {
		return nil
	}
	if made := g.path(githubMadeFile); Exists(made) {
		return wrong("Mend what was said above, and call this again: it goes on with that App.", "GitHub has made the App %s. Its credentials are in %s, not yet in files of their own.", app.Slug, made)
	}
	return wrong(fmt.Sprintf("Its page is %s. Make it a new private key in its settings, and call writ setup github --app-id %d --private-key-file FILE; or delete it there.", app.Page, app.ID),
		"GitHub has made the App %s, and its key could not be kept: it is gone.", app.Slug)
}

// refusedCode says what a refused code means.
func refusedCode(err error) *refusal {
	var e *forge.Error
	switch {
	case forge.IsReason(err, forge.NotFound):
		return &refusal{used: true, Text: "GitHub doesn't know the code any more.", Remedy: "It counts once, and for an hour. Begin again; if GitHub shows an App that you made just now, delete it in its settings, or give it to writ: writ setup github --app-id N --private-key-file FILE."}
	case forge.IsReason(err, forge.Invalid):
		return &refusal{used: true, Text: "GitHub didn't send a code that can be used (" + err.Error() + ").", Remedy: "Begin again."}
	case forge.IsReason(err, forge.Limited):
		return &refusal{Text: "GitHub has been asked too often from here (" + err.Error() + ").", Remedy: "The code counts for an hour. Wait some minutes, and try again."}
	case errors.As(err, &e) && e.Applied:
		return &refusal{Text: "GitHub was asked for the App, and its answer was lost (" + err.Error() + ").", Remedy: "Try again. If the code is used by then, the App is there without its key: make a new key on the App's page, and go on with writ setup github --app-id N --private-key-file FILE."}
	}
	return &refusal{Text: "GitHub can't be reached from here (" + err.Error() + ").", Remedy: "See to the network or --proxy and --ca-file, and try again within the hour."}
}

// keep writes everything down, first in one file, so that a process which dies
// in the middle loses nothing: Recover goes on from it.
func (g *GitHub) keep(k kept) error {
	env := []variable{{githubKeyVar, g.path(githubKeyFile)}}
	if k.HookSecret != "" {
		env = append(env, variable{githubHookVar, g.path(githubHookFile)})
	}
	text, err := appEnv(k.ID, env)
	if err != nil {
		return err
	}
	k.Env = string(text)
	if g.Existing == "" {
		k.Config = string(g.config(k.ID))
	}
	data, err := json.Marshal(k)
	if err != nil {
		return err
	}
	if err := Keep(g.path(githubMadeFile), data); err != nil {
		return err
	}
	return g.unfold(k)
}

// unfold writes the files of an App and then takes the one away that had it all.
func (g *GitHub) unfold(k kept) error {
	secret := ""
	if k.HookSecret != "" {
		secret = k.HookSecret + "\n"
	}
	for _, f := range []struct{ name, text string }{
		{githubKeyFile, k.Key}, {githubHookFile, secret}, {EnvFile, k.Env}, {ConfigFile, k.Config},
	} {
		if f.text == "" {
			continue
		}
		if err := Keep(g.path(f.name), []byte(f.text)); err != nil {
			return err
		}
	}
	return remove(g.path(githubMadeFile))
}

// Recover finishes what a process that died has left. It reports whether there
// was something.
func (g *GitHub) Recover() (bool, error) {
	path := g.path(githubMadeFile)
	if !Exists(path) {
		return false, nil
	}
	data, err := ReadKept(path)
	if err != nil {
		return false, err
	}
	var k kept
	if err := json.Unmarshal(data, &k); err != nil || k.ID <= 0 || k.Key == "" {
		return false, wrong("Move it away. The App's key can be made anew on its page.", "%s is not what set-up wrote.", path)
	}
	return true, g.unfold(k)
}

// appNote begins the file of variables: a configuration that the operator writes
// himself may not have the number yet.
const appNote = "# GitHub App "

func appEnv(id int64, list []variable) ([]byte, error) {
	text, err := envText(list)
	return append(fmt.Appendf(nil, "%s%d\n", appNote, id), text...), err
}

// App is the number of the App whose credentials are here already; 0: none.
func (g *GitHub) App() (int64, error) {
	if !Exists(g.path(EnvFile)) {
		return 0, nil
	}
	data, err := ReadKept(g.path(EnvFile))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if number, ok := strings.CutPrefix(strings.TrimSpace(line), appNote); ok {
			return strconv.ParseInt(number, 10, 64)
		}
	}
	return 0, nil
}
