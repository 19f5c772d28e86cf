package gitlabtest

import (
	"regexp"
	"slices"
	"strings"
)

// quickNames are the quick actions that are known; what isn't one stays text.
var quickNames = []string{
	"approve", "assign", "award", "cc", "child_of", "clear_weight", "clone", "close", "confidential", "copy_metadata", "create_merge_request",
	"done", "draft", "due", "duplicate", "epic", "estimate", "iteration", "label", "labels", "lock", "merge", "milestone", "move", "promote",
	"react", "ready", "reassign", "rebase", "relabel", "relate", "remove_due_date", "remove_label", "remove_milestone", "reopen", "request_review", "shrug",
	"spend", "submit_review", "subscribe", "tableflip", "target_branch", "title", "todo", "type", "unapprove", "unassign", "unlabel", "unlock", "unsubscribe",
	"weight", "wip", "zoom",
}

var quickLine = regexp.MustCompile(`^/([A-Za-z_]+)(?: (.*))?$`)

// quickAction is one that a text asked for.
type quickAction struct{ name, arg string }

// quickActions takes the actions out of a text: carriage returns go first, code
// between lines of three backticks, HTML blocks and >>> quotes are left alone,
// and so is white space, but at the end.
func quickActions(in string) (left string, acts []quickAction) {
	lines := strings.Split(strings.ReplaceAll(in, "\r", ""), "\n")
	var out []string
	for n := 0; n < len(lines); n++ {
		if end := protected(lines, n); end > n {
			out = append(out, lines[n:end+1]...)
			n = end
			continue
		}
		m := quickLine.FindStringSubmatch(strings.TrimRight(lines[n], " \t"))
		if m != nil && slices.Contains(quickNames, strings.ToLower(m[1])) {
			acts = append(acts, quickAction{strings.ToLower(m[1]), m[2]})
			continue
		}
		out = append(out, lines[n])
	}
	return strings.TrimRight(strings.Join(out, "\n"), " \t\n"), acts
}

var opensTag = regexp.MustCompile(`^<[^>]+>$`)

// protected finds the last line of a block that begins at a line, or the line itself.
func protected(lines []string, n int) int {
	var ends func(string) bool
	switch l := lines[n]; {
	case strings.HasPrefix(l, "```"):
		ends = func(s string) bool { return s == "```" }
	case strings.HasPrefix(l, ">>>"):
		ends = func(s string) bool { return s == ">>>" }
	case opensTag.MatchString(l):
		ends = func(s string) bool { return strings.HasPrefix(s, "</") && strings.HasSuffix(s, ">") }
	default:
		return n
	}
	for end := n + 2; end < len(lines); end++ {
		if ends(lines[end]) {
			return end
		}
	}
	return n
}

// execute does what quick actions ask for, as far as the caller may.
func (c *call) execute(p *project, i *item, acts []quickAction) {
	for _, a := range acts {
		c.s.executed = append(c.s.executed, strings.TrimSpace(c.user.Username+": /"+a.name+" "+a.arg))
		if !c.edits(p, i) {
			continue
		}
		switch a.name {
		case "close", "reopen":
			c.setState(p, i, a.name)
		case "label", "labels":
			if c.labels(p, i) {
				c.setLabels(p, i, labelWords(a.arg), nil)
			}
		case "unlabel", "remove_label":
			if c.labels(p, i) {
				c.setLabels(p, i, nil, labelWords(a.arg))
			}
		case "relabel":
			if c.labels(p, i) {
				c.setLabels(p, i, labelWords(a.arg), slices.Clone(i.Labels))
			}
		case "title":
			c.setTitle(i, a.arg)
		case "lock", "unlock":
			i.Locked, i.Updated = a.name == "lock", c.s.tick()
		case "confidential":
			i.Confidential, i.Updated = true, c.s.tick()
		}
	}
}

var labelWord = regexp.MustCompile(`~"([^"]+)"|~(\S+)`)

func labelWords(arg string) []string {
	var out []string
	for _, m := range labelWord.FindAllStringSubmatch(arg, -1) {
		out = append(out, m[1]+m[2])
	}
	return out
}
