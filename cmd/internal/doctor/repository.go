package doctor

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
)

// Host is a forge, as the account that writ acts as. What one of them knows
// beside is asked for by the interfaces gitHub and gitLab.
type Host interface {
	Find(ctx context.Context, owner, name string) (forge.Repository, error)
	Client(forge.Repo) forge.Client
	GitURL(forge.Repo) string
	GitAuth(forge.Repo) git.Auth
}

// Target is a repository to check.
type Target struct {
	Forge string // github, gitlab or local
	Host  Host
	Name  string // owner/name; the owner may hold subgroups

	Git      git.Options // the way to the forge: its Logger may be nil
	Refs     string      // hidden or heads, as in the configuration; "": hidden
	Base     string      // as in the configuration; "": the contract's, or the default branch
	Identity Identity    // of what writ commits
	Signer   git.Signer  // the instance's key; nil: one that is made for the probe

	Poll    bool // intake: poll: there are no webhooks
	NoProbe bool // push nothing
	// Hook is the public address of writ's own hook, where GitLab's deliveries of
	// this repository should go; "": any whose path ends as writ's.
	Hook string

	Time time.Duration    // of one check; 0: CheckTime
	Now  func() time.Time // nil: time.Now
	Each func(Check)      // told of each check as it ends; nil for nobody
	Log  *slog.Logger     // nil: nothing is logged
}

// Identity is author and committer of what writ commits.
type Identity struct{ Name, Email string }

// Repository checks one repository at a forge: whether it is there, what writ
// may do in it, its contract, and what its git server and rules allow. What
// stands on a check that failed is skipped.
func Repository(ctx context.Context, t Target) []Check {
	p := &patient{Target: t.complete(), runner: runner{subject: t.Name, limit: t.Time, each: t.Each}}
	p.examine(ctx)
	return p.done
}

func (t Target) complete() Target {
	if t.Now == nil {
		t.Now = time.Now
	}
	if t.Log == nil {
		t.Log = slog.New(slog.DiscardHandler)
	}
	if t.Identity.Name == "" {
		t.Identity = Identity{"writ", "writ@localhost"}
	}
	t.Git.Logger = t.Log
	return t
}

// patient is a repository while it is examined, and what was found of it.
type patient struct {
	Target
	runner
	about forge.Repository
	self  forge.User
	repo  *git.Repo
	terms terms // what its contract says
}

func (p *patient) at() forge.Repo { return p.about.Repo }

func (p *patient) client() forge.Client { return p.Host.Client(p.at()) }

// examine makes the checks in their order.
func (p *patient) examine(ctx context.Context) {
	if !p.check(ctx, NameRepository, p.there) {
		p.skip("The repository isn't there for writ.", NamePermissions, NameEvents, NameHook, NameDeliveries, NameIssues,
			NameContract, NameLabel, NameStateRefs, NameAtomic, NameBranches)
		return
	}
	pushes := p.rights(ctx)
	p.check(ctx, NameIssues, p.issues)
	closeRepo, err := p.open(ctx)
	if err != nil {
		p.add(NameContract, bad("Check the address of the forge in the configuration.", "The repository can't be opened: %s.", plain(err)))
		p.skip("The repository can't be opened.", NameLabel, NameStateRefs, NameAtomic, NameBranches)
		return
	}
	defer closeRepo()
	if !p.check(ctx, NameContract, p.contract) {
		p.terms = defaultTerms()
	}
	p.check(ctx, NameLabel, p.label)
	if pushes {
		p.probe(ctx)
	} else {
		p.skip("Writ may not push there.", NameStateRefs, NameAtomic)
	}
	p.check(ctx, NameBranches, p.branches)
}

// rights asks who writ is there, what it may do, and what it is told of. It
// reports whether writ may push.
func (p *patient) rights(ctx context.Context) (pushes bool) {
	// Who writ is was checked for the forge; here it is only needed.
	p.self, _ = p.client().Self(ctx)
	switch h := p.Host.(type) {
	case gitHub:
		pushes = p.held(ctx, h)
	case gitLab:
		pushes = p.check(ctx, NamePermissions, p.permission)
		p.projectHook(ctx, h)
	default:
		pushes = p.check(ctx, NamePermissions, p.permission)
	}
	return pushes
}

// branches looks for rules that would stop writ's pushes.
func (p *patient) branches(ctx context.Context) result {
	switch h := p.Host.(type) {
	case gitHub:
		return p.gitHubBranches(ctx, h)
	case gitLab:
		return p.gitLabBranches(ctx, h)
	}
	return ok("This forge has no rules for branches.")
}

func (p *patient) open(ctx context.Context) (func(), error) {
	var err error
	p.repo, err = git.Open(ctx, git.Endpoint{URL: p.Host.GitURL(p.at()), Auth: p.Host.GitAuth(p.at())}, p.Git)
	if err != nil {
		return nil, err
	}
	return func() { _ = p.repo.Close() }, nil // everything that counts was answered before
}

// there finds the repository by its name.
func (p *patient) there(ctx context.Context) result {
	at := strings.LastIndexByte(p.Name, '/')
	if at < 1 {
		return bad("Write it as owner/name in forges."+p.Forge+".repositories.", "The name %q is no repository's.", p.Name)
	}
	found, err := p.Host.Find(ctx, p.Name[:at], p.Name[at+1:])
	if err != nil {
		return p.refused(err, "The repository can't be seen")
	}
	p.about = found
	switch {
	case found.Archived:
		return bad("Unarchive it on its page, or take it out of forges."+p.Forge+".repositories.", "It is archived: nothing can be written to it.")
	case found.DefaultBranch == "":
		return bad("Push a first commit to it.", "It has no default branch: it is empty.")
	}
	kind := "public"
	if found.Private {
		kind = "private"
	}
	return ok("It is there, number %d, %s, with the default branch %s.", found.ID, kind, found.DefaultBranch)
}

// issues asks for none, to see whether there is such a thing.
func (p *patient) issues(ctx context.Context) result {
	err := p.client().ListIssues(ctx, p.at(), p.Now().Add(time.Hour), func(forge.Issue) error { return nil })
	switch {
	case err == nil:
		return ok("Issues are switched on.")
	case forge.IsReason(err, forge.NotFound), forge.IsReason(err, forge.Forbidden):
		return bad(issuesRemedy[p.Forge], "Issues can't be listed (%s): they may be switched off.", plain(err))
	}
	return p.refused(err, "Issues can't be listed")
}

var issuesRemedy = map[string]string{
	"github": "Settings of the repository, Features: tick Issues. And see that the App holds Issues: read and write.",
	"gitlab": "Settings of the project, General, Visibility, project features: switch Issues on.",
	"local":  "See that writ's account may read the repository: `writ forge grant`.",
}

// refused is the result for an error of the forge, with what its reason asks for.
func (p *patient) refused(err error, what string) result {
	return forgeTrouble(p.Forge, p.Name, err, what)
}

func forgeTrouble(name, repository string, err error, what string) result {
	detail := fmt.Sprintf("%s: %s.", what, plain(err))
	for _, r := range []forge.Reason{forge.Unauthorized, forge.Forbidden, forge.NotFound, forge.Limited} {
		if forge.IsReason(err, r) {
			return result{Failed, detail, fmt.Sprintf(remedies[name+" "+string(r)], repository)}
		}
	}
	return result{Failed, detail, "Look at the checks of the forge above, and try again: " + name + " may be down for a moment."}
}

// remedies are for a forge's refusals. Each names the repository, with %[1]s,
// where that says more.
var remedies = map[string]string{
	"github " + string(forge.Unauthorized): "Check forges.github.app_id and the private key (or the token), and that the App isn't suspended: its page, Install App, Configure.%.0[1]s",
	"github " + string(forge.Forbidden):    "Give the App what it lacks: its page, Permissions & events; then accept it where it is installed (Configure). It must be installed on %[1]s.",
	"github " + string(forge.NotFound):     "Install the App on %[1]s (its page, Install App, Configure, Repository access), or mend the name in forges.github.repositories.",
	"github " + string(forge.Limited):      "Wait: GitHub's allowance is used up for now. `writ doctor` asks a few dozen times.%.0[1]s",
	"gitlab " + string(forge.Unauthorized): "Make a new project or group access token with the scope api and the role Maintainer, and put it where forges.gitlab.token says.%.0[1]s",
	"gitlab " + string(forge.Forbidden):    "The token needs the scope api, and in %[1]s the role Developer or more.",
	"gitlab " + string(forge.NotFound):     "See that the token is one of %[1]s or of a group above it, and that forges.gitlab.repositories has the right path.",
	"gitlab " + string(forge.Limited):      "Wait a minute: GitLab's rate limit is used up.%.0[1]s",
	"local " + string(forge.Unauthorized):  "Make a token for writ's account with `writ forge token`, and put it where forges.local.token says.%.0[1]s",
	"local " + string(forge.Forbidden):     "Give writ's account write permission in %[1]s: `writ forge grant`.",
	"local " + string(forge.NotFound):      "Make %[1]s with `writ forge repo`, or mend the name in forges.local.repositories.",
	"local " + string(forge.Limited):       "Try again.%.0[1]s",
}
