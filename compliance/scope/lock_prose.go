package scope

import (
	"bytes"
	"strings"

	"github.com/writbot/writ/compliance/lazyregexp"
)

// pnpmSources are those of a pnpm-lock.yaml without what it says to people of packages
// that are deprecated.
func pnpmSources(data []byte) (map[string]bool, error) { return yamlSources(withoutDeprecated(data)) }

// poetrySources are those of a poetry.lock without the descriptions of its packages.
func poetrySources(data []byte) (map[string]bool, error) {
	return tomlSources(withoutDescriptions(data))
}

// The lines of YAML that pnpm writes: whatever stands in them, no text in quotes and no
// list begins in one and goes on in the next. deprecated is such a line whose value is left
// out, and deprecatedBlock one whose value is on the lines below. No reader takes what a
// value that is left out holds for the end of a line.
var (
	yamlLine = lazyregexp.New(`^ *(?:[-?:] )*(?:` + yamlKey + `:|(?:` + yamlKey + `: )?(?:` + yamlKey +
		`|\{` + yamlItem + `(?:, ` + yamlItem + `)*\}|\[` + yamlItem + `(?:, ` + yamlItem + `)*\]))$`)
	deprecated      = lazyregexp.New(`^ *deprecated: (?:'(?:''|[^'` + breaks + `])*'|"(?:\\[ -~]|[^"\\` + breaks + `])*"|` + yamlFirst + `[^` + breaks + `]*)$`)
	deprecatedBlock = lazyregexp.New(`^ *deprecated: [|>][+-]?$`)
	unbroken        = lazyregexp.New(`^[^` + breaks + `]*$`)
	yamlIndicator   = lazyregexp.New(`^ *[-?:] `)
)

const (
	breaks     = `\x00-\x1f\x7f-\x{9f}\x{2028}\x{2029}`
	yamlFirst  = `[^ "'!#%&*,\-:>?@\[\]` + "`" + `{|}` + breaks + `]`
	yamlQuoted = `(?:'(?:''|[^'` + breaks + `])*'|"[^"\\` + breaks + `]*")`
	yamlKey    = `(?:` + yamlQuoted + `|` + yamlFirst + `[^"'{}\[\]` + breaks + `]*)`
	yamlWord   = `(?:` + yamlQuoted + `|` + yamlFirst + `[^"'{}\[\],` + breaks + `]*)`
	yamlItem   = yamlWord + `(?:: ` + yamlWord + `)?`
)

// yamlParent is a line with a key whose value is on the lines below it, the first of which
// is indented by below.
type yamlParent struct {
	text          string
	indent, below int
}

// withoutDeprecated leaves out the values of the key deprecated of the entries below
// packages. As soon as a line isn't of the form that pnpm writes, nothing more is left out:
// what looks like such a key could be within a text.
func withoutDeprecated(data []byte) []byte {
	var out bytes.Buffer
	var above []yamlParent
	for rest := strings.ReplaceAll(string(data), "\r\n", "\n"); rest != ""; {
		line, next, _ := strings.Cut(rest, "\n")
		text := strings.TrimLeft(line, " ")
		indent := len(line) - len(text)
		if text != "" {
			above = placed(above, indent)
		}
		entry := len(above) == 2 && above[0].text == "packages:" && above[0].indent == 0 && above[1].below == indent
		switch {
		case text == "":
		case entry && deprecated().MatchString(line):
			line = ""
		case entry && deprecatedBlock().MatchString(line):
			line, next = "", afterBlock(next, indent)
		case line == "---":
			above = nil
		case !yamlLine().MatchString(line), yamlIndicator().MatchString(line) && strings.HasSuffix(line, ":"):
			out.WriteString(rest)
			return out.Bytes()
		case strings.HasSuffix(line, ":"):
			above = append(above, yamlParent{text: text, indent: indent})
		}
		out.WriteString(line + "\n")
		rest = next
	}
	return out.Bytes()
}

// placed are the parents that a line has by its indentation. The last of them then knows
// how the first line below it is indented.
func placed(above []yamlParent, indent int) []yamlParent {
	for len(above) > 0 && above[len(above)-1].indent >= indent {
		above = above[:len(above)-1]
	}
	if last := len(above) - 1; last >= 0 && above[last].below == 0 {
		above[last].below = indent
	}
	return above
}

// afterBlock is what follows the lines of a block of text: those that are blank, or
// indented as its first one is or more.
func afterBlock(rest string, parent int) string {
	least := parent + 1
	for first := true; rest != ""; {
		line, next, _ := strings.Cut(rest, "\n")
		if words := strings.TrimLeft(line, " "); words != "" {
			indent := len(line) - len(words)
			if indent < least || !unbroken().MatchString(words) {
				break
			}
			if first {
				least, first = indent, false
			}
		}
		rest = next
	}
	return rest
}

// description is a line of a package's description, as poetry writes it.
var description = lazyregexp.New(`^description = "(?:[^"\\\x00-\x1f\x7f]|\\["\\bfnrt]|\\u[0-9a-fA-F]{4})*"$`)

// withoutDescriptions leaves out the descriptions of packages, which hold what their
// authors like: escapes and addresses. What looks like one could be within a text of
// several lines, so that nothing is left out where there are such.
func withoutDescriptions(data []byte) []byte {
	if bytes.Contains(data, []byte(`"""`)) || bytes.Contains(data, []byte(`'''`)) {
		return data
	}
	var out bytes.Buffer
	within := false // the table of a package
	for line := range strings.Lines(strings.ReplaceAll(string(data), "\r\n", "\n")) {
		text := strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(strings.TrimLeft(text, " \t"), "[") {
			within = text == "[[package]]"
		}
		if !within || !description().MatchString(text) {
			out.WriteString(line)
		}
	}
	return out.Bytes()
}
