package setup

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/github"
)

// acceptor trades a code and keeps what comes of it. What GitHub has given is
// not asked for again: when it can't be kept, the next call tries to keep it.
func (g *GitHub) acceptor(convert func(context.Context, string) (github.Made, error), made chan<- kept) func(context.Context, string) (madeApp, *refusal) {
	var mu sync.Mutex
	var app *kept
	return func(ctx context.Context, code string) (madeApp, *refusal) {
		mu.Lock()
		defer mu.Unlock()
		if app == nil {
			got, err := convert(ctx, code)
			if err != nil {
				no := refusedCode(err)
				g.Say("%s\n%s\n", no.Text, no.Remedy)
				return madeApp{}, no
			}
			app = &kept{got.ID, got.Slug, got.Page, string(got.Key), got.HookSecret}
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
		made <- *app
		return madeApp{app.Slug, g.path(githubKeyFile), app.install(), g.Repositories}, nil
	}
}

// refusedCode says what a refused code means.
func refusedCode(err error) *refusal {
	var e *forge.Error
	switch {
	case forge.IsReason(err, forge.NotFound):
		return &refusal{used: true, Text: "GitHub doesn't know the code any more.", Remedy: "It counts once, and for an hour. Begin again; if GitHub shows an App that you made just now, delete it in its settings, or give it to writ: writ setup github --app-id N --private-key-file FILE."}
	case forge.IsReason(err, forge.Invalid):
		return &refusal{used: true, Text: "GitHub didn't send a code that can be used (" + err.Error() + ").", Remedy: "Begin again."}
	case errors.As(err, &e) && e.Applied:
		return &refusal{Text: "GitHub was asked for the App, and its answer was lost (" + err.Error() + ").", Remedy: "Try again. If the code is used by then, the App is there without its key: make a new key on the App's page, and go on with writ setup github --app-id N --private-key-file FILE."}
	}
	return &refusal{Text: "GitHub can't be reached from here (" + err.Error() + ").", Remedy: "See to the network or --proxy and --ca-file, and try again within the hour."}
}

// keep writes everything down, first in one file, so that a process which dies
// in the middle loses nothing: recover goes on from it.
func (g *GitHub) keep(k kept) error {
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
	env := []variable{{githubKeyVar, g.path(githubKeyFile)}}
	if err := Keep(g.path(githubKeyFile), []byte(k.Key)); err != nil {
		return err
	}
	if k.HookSecret != "" {
		env = append(env, variable{githubHookVar, g.path(githubHookFile)})
		if err := Keep(g.path(githubHookFile), []byte(k.HookSecret+"\n")); err != nil {
			return err
		}
	}
	text, err := envText(env)
	if err != nil {
		return err
	}
	if err := Keep(g.path(EnvFile), text); err != nil {
		return err
	}
	if g.Existing == "" {
		if err := Keep(g.configPath(), g.config(k.ID)); err != nil {
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
