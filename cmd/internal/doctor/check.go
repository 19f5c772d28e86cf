package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/writbot/writ/compliance/report"
)

// Status is how a check ended.
type Status string

// The ends. A warning is for a person to judge; a failed check stops writ, or
// makes something not work; a skipped one stands on another that failed, or
// isn't about this installation.
const (
	OK      Status = "ok"
	Warning Status = "warning"
	Failed  Status = "failed"
	Skipped Status = "skipped"
)

// mark shows a status at the beginning of a line.
func (s Status) mark() string {
	return map[Status]string{OK: "+", Warning: "!", Failed: "x", Skipped: "-"}[s]
}

// Check is what became of one check.
type Check struct {
	Name    string `json:"name"`              // one of [Names]
	Subject string `json:"subject,omitempty"` // the forge, repository or thing that it is about; "" for the installation
	Status  Status `json:"status"`
	Detail  string `json:"detail"`           // a sentence
	Remedy  string `json:"remedy,omitempty"` // what to do; never empty for a warning or a failed check
}

// The names of the checks, in the order in which they are made.
const (
	NameConfiguration = "configuration"
	NameSecrets       = "secrets"
	NameMounts        = "mounts"
	NameStateDir      = "state-directory"
	NameStore         = "store"
	NameLedger        = "ledger"
	NameKey           = "instance-key"
	NameGit           = "git"
	NameSandbox       = "sandbox"
	NameBuilder       = "builder"
	NamePreflight     = "preflight"
	NameServer        = "server"
	NameReach         = "forge"
	NameClock         = "clock"
	NameAccount       = "account"
	NameHook          = "hook"
	NameDeliveries    = "deliveries"
	NameAddress       = "public-address"
	NameRepository    = "repository"
	NamePermissions   = "permissions"
	NameEvents        = "events"
	NameIssues        = "issues"
	NameContract      = "contract"
	NameLabel         = "label"
	NameStateRefs     = "state-refs"
	NameAtomic        = "atomic-push"
	NameBranches      = "branch-rules"
)

// Names are those of all checks, in their order.
func Names() []string {
	return []string{
		NameConfiguration, NameSecrets, NameMounts, NameStateDir, NameStore, NameLedger, NameKey, NameGit, NameSandbox, NameBuilder, NamePreflight, NameServer,
		NameReach, NameClock, NameAccount, NameHook, NameDeliveries, NameAddress, NameRepository, NamePermissions, NameEvents, NameIssues,
		NameContract, NameLabel, NameStateRefs, NameAtomic, NameBranches,
	}
}

// Good reports whether nothing failed. Warnings are allowed.
func Good(checks []Check) bool {
	for _, c := range checks {
		if c.Status == Failed {
			return false
		}
	}
	return true
}

// Print writes a line for each check, and the remedy below what is not as it
// should be.
func Print(w io.Writer, checks []Check) error {
	for _, c := range checks {
		if err := Line(w, c); err != nil {
			return err
		}
	}
	return nil
}

// nameWidth is that of the longest name.
const nameWidth = 15

// Line writes one check as [Print] does.
func Line(w io.Writer, c Check) error {
	head := fmt.Sprintf("%s %-7s  %-*s  ", c.Status.mark(), c.Status, nameWidth, c.Name)
	if c.Subject != "" {
		head += c.Subject + ": "
	}
	text := head + oneLine(c.Detail) + "\n"
	if c.Remedy != "" && (c.Status == Warning || c.Status == Failed) {
		for line := range strings.Lines(strings.TrimSpace(c.Remedy)) {
			text += "    " + strings.TrimSpace(line) + "\n"
		}
	}
	_, err := io.WriteString(w, report.Clean(text))
	return err
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// CheckTime is how long one check may take, by default.
const CheckTime = 10 * time.Second

// result is what a check's function returns; its name and subject are added.
type result struct {
	status         Status
	detail, remedy string
}

func ok(format string, args ...any) result {
	return result{status: OK, detail: fmt.Sprintf(format, args...)}
}

func skipped(format string, args ...any) result {
	return result{status: Skipped, detail: fmt.Sprintf(format, args...)}
}

func warn(remedy, format string, args ...any) result {
	return result{Warning, fmt.Sprintf(format, args...), remedy}
}

func bad(remedy, format string, args ...any) result {
	return result{Failed, fmt.Sprintf(format, args...), remedy}
}

// runner makes the checks about one subject, each within its time.
type runner struct {
	subject string
	limit   time.Duration // 0: CheckTime
	each    func(Check)   // told of each; nil for nobody
	done    []Check
}

// interrupted is why a check wasn't made or has no result.
const interrupted = "It was interrupted."

// check makes one check, and reports whether what stands on it can be made.
func (r *runner) check(ctx context.Context, name string, f func(context.Context) result) bool {
	return r.checkWithin(ctx, name, CheckTime, f)
}

// checkWithin is check for one that takes longer, where no limit is given.
func (r *runner) checkWithin(ctx context.Context, name string, limit time.Duration, f func(context.Context) result) bool {
	if r.limit > 0 {
		limit = r.limit
	}
	if ctx.Err() != nil {
		r.skip(interrupted, name)
		return false
	}
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out := f(within)
	if out.status == Failed && ctx.Err() != nil { // nothing was found out
		out = skipped(interrupted)
	}
	if out.status == Failed && errors.Is(within.Err(), context.DeadlineExceeded) {
		out.detail += fmt.Sprintf(" There was no answer within %s.", limit)
	}
	r.add(name, out)
	return out.status == OK || out.status == Warning
}

func (r *runner) add(name string, out result) {
	c := Check{Name: name, Subject: r.subject, Status: out.status, Detail: out.detail, Remedy: out.remedy}
	r.done = append(r.done, c)
	if r.each != nil {
		r.each(c)
	}
}

// skip notes checks that can't be made.
func (r *runner) skip(why string, names ...string) {
	for _, name := range names {
		r.add(name, skipped("%s", why))
	}
}
