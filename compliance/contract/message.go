package contract

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/writbot/writ/compliance/internal/visible"
	"github.com/writbot/writ/compliance/lazyregexp"
	"github.com/writbot/writ/kernel"
)

// Limits of commit messages.
const (
	// MaxTitleRunes is how much of an issue's title stands in a commit.
	MaxTitleRunes = 72
	// MaxSubjectBytes is the length of a message's first line.
	MaxSubjectBytes = 400
	maxPattern      = 512
)

// Trailer is one line at the end of a message, such as Writ-Task: 7.
type Trailer struct{ Key, Value string }

// Message writes the commit message of a task: the template's line and the
// trailers. The title is data: it becomes one line, and what forges act on is
// taken out of it (case F2): closing keywords keep their words but lose the
// reference, the ids of commits their end, mentions their @, brackets become parentheses so that [skip ci]
// skips nothing. The result is checked by [CheckMessage].
func (c Contract) Message(title string, task int64, trailers ...Trailer) (string, []kernel.Violation) {
	msg := strings.NewReplacer("{title}", SafeTitle(title), "{task}", strconv.FormatInt(task, 10)).Replace(c.Commit.Template) + "\n"
	if len(trailers) > 0 {
		msg += "\n"
	}
	for _, t := range trailers {
		msg += t.Key + ": " + visible.Line(t.Value) + "\n"
	}
	return msg, CheckMessage(c.Commit.Pattern, msg)
}

// SafeTitle is an issue's title as it stands in a commit message.
func SafeTitle(title string) string {
	t := visible.Line(title)
	t = unsafeInTitle.Replace(t) // first: what it takes out may join what stood apart
	t = reference().ReplaceAllString(t, "$1$2$3")
	t = commitID().ReplaceAllString(t, "$1…")
	t = urls().ReplaceAllString(t, "$1 $2")
	if utf8.RuneCountInString(t) > MaxTitleRunes {
		t = strings.TrimRight(string([]rune(t)[:MaxTitleRunes-1]), " ") + "…"
	}
	if t = strings.TrimSpace(t); t == "" {
		return "task"
	}
	return t
}

var (
	// reference is an issue or change in the forms that forges link: #9, !9,
	// o/r#9, GH-9.
	reference = lazyregexp.New(`(?i)[#!]+([0-9])|\b(gh)-([0-9])`)
	// commitID is the whole id of a commit: a message that says that it reverts one is
	// believed, by forges and by writ. What is left still names it for people.
	commitID      = lazyregexp.New(`(?i)([0-9a-f]{12})[0-9a-f]{28,}`)
	urls          = lazyregexp.New(`(?i)\b(https?):/*([^ ])`)
	unsafeInTitle = strings.NewReplacer("[", "(", "]", ")", "@", "", "*", "", "`", "'", "#", "", "$", "", "<", "", ">", "")
)

// forbidden is what no commit message of ours may hold, whoever wrote it.
var forbidden = []struct {
	what string
	re   lazyregexp.Regexp
}{
	{"a keyword that closes an issue", lazyregexp.New(`(?i)\b(clos(e[sd]?|ing)|fix(e[sd]|ing)?|resolv(e[sd]?|ing)|implement(s|ed|ing)?)\b[\s:]*(issues?\s*)?([\w.-]+/[\w./-]+)?([#!][0-9]|gh-[0-9]|https?:)`)},
	{"a word that skips CI", lazyregexp.New(`(?im)\[[^\]\n]*\b(skip|no)\b[^\]\n]*\]|\*\*\*no_ci\*\*\*|^skip-checks:`)},
	{"a claim that it reverts a commit or change", lazyregexp.New(`(?i)\brevert(s|ed)?\b[\s:]*((commit|merge\s+request|pull\s+request)\s+)?([\w.-]+/[\w./-]+)?([#!][0-9]|gh-[0-9]|[0-9a-f]{40})`)},
	{"a mention", lazyregexp.New(`(^|[^\w@.])@\w`)},
	{"an author or sign-off that nobody gave", lazyregexp.New(`(?im)^(co-authored-by|signed-off-by|reviewed-by|acked-by|aynig-[a-z-]*)\s*:`)},
}

// CheckMessage holds a commit message against the contract's pattern and
// against the fixed rules (seed 001, "commit message follows governance
// rules"). Every fault is execution.message.invalid.
func CheckMessage(pattern, msg string) []kernel.Violation {
	var out []kernel.Violation
	bad := func(subject, detail string) {
		out = append(out, kernel.Violation{Code: kernel.CodeMessageInvalid, Subject: subject, Detail: detail})
	}
	subject, rest, _ := strings.Cut(msg, "\n")
	re, err := regexp.Compile(pattern)
	switch {
	case err != nil:
		bad("commit.pattern", "It is not a regular expression.")
	case !re.MatchString(subject):
		bad("commit.pattern", "The first line does not match it.")
	}
	if len(subject) > MaxSubjectBytes {
		bad("subject", fmt.Sprintf("The first line is longer than %d bytes.", MaxSubjectBytes))
	}
	if strings.TrimSpace(subject) == "" {
		bad("subject", "The first line is empty.")
	}
	if !utf8.ValidString(msg) || visible.Any(subject) || visible.Any(strings.ReplaceAll(rest, "\n", "")) {
		bad("message", "It has a control character or one that a reader can't see.")
	}
	for _, f := range forbidden {
		if f.re().MatchString(msg) {
			bad("message", "It has "+f.what+".")
		}
	}
	return kernel.SortViolations(out)
}

// sampleTitles are what every template must be able to carry.
var sampleTitles = []string{
	"Add handles negative numbers", "x", "Größe und Maß: 100 % \"quoted\"", "Fixes #99 [skip ci] @org/all",
	strings.Repeat("long ", 60), "feat(api)!: do it", "\n", "What it closes", "What it reverts",
}

var placeholder = lazyregexp.New(`\{[^{}]*\}?|\}`)

// defaultCommit is what most contracts have. A test shows that its pattern and template agree,
// so it isn't held against the samples each time that a contract is read.
var defaultCommit = Commit{Pattern: `^writ: [^ ].* \(#[1-9][0-9]*\)$`, Template: "writ: {title} (#{task})"}

// commitFindings makes sure that pattern and template agree: messages written
// from sample titles must pass.
func (c *Contract) commitFindings() []Finding {
	for _, p := range placeholder().FindAllString(c.Commit.Template, -1) {
		if p != "{title}" && p != "{task}" {
			return []Finding{{Path: "commit.template", Detail: "Braces hold {title} or {task} and nothing else."}}
		}
	}
	for _, task := range []int64{1, 42, 1_234_567} {
		for _, title := range sampleTitles {
			if msg, faults := c.Message(title, task); len(faults) > 0 {
				return []Finding{{Path: "commit.template", Detail: fmt.Sprintf("It gives %q, and commit.pattern or the fixed rules refuse that: %s %s",
					strings.TrimSpace(msg), faults[0].Subject, faults[0].Detail)}}
			}
		}
	}
	return nil
}
