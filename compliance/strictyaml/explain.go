package strictyaml

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/writbot/writ/compliance/lazyregexp"
)

var yamlLine = lazyregexp.New(`^(?:yaml: )?line ([0-9]+): (.*)$`)

// explain says of a text that isn't YAML what is wrong with it, where, and what is written
// instead: the line of a parser's error, from 1, and a sentence; line is 0 where the parser
// doesn't say.
func explain(err error, data []byte) (line int, detail string) {
	detail = strings.TrimPrefix(err.Error(), "yaml: ")
	if m := yamlLine().FindStringSubmatch(err.Error()); m != nil {
		line, _ = strconv.Atoi(m[1]) // digits
		detail = m[2]
	}
	hint := "mend the syntax"
	switch lines := strings.Split(string(data), "\n"); {
	case line > 0 && line <= len(lines) && strings.Contains(indent(lines[line-1]), "\t"):
		hint = "a tab can't indent; write spaces in its place"
	case strings.Contains(detail, "cannot start any token"):
		hint = "a value that begins with @, % or ` needs quotes"
	case strings.Contains(detail, "mapping values are not allowed"):
		hint = "the line is indented further than the one above it, or a value with a colon in it needs quotes"
	case strings.Contains(detail, "end of stream"):
		hint = "a quote or a bracket isn't closed"
	case strings.Contains(detail, "unknown anchor"):
		hint = "a value that begins with * needs quotes"
	case strings.Contains(detail, "did not find expected"):
		hint = "look at the indentation and the brackets here and above"
	}
	return line, fmt.Sprintf("It is not YAML (%s): %s.", detail, hint)
}

func indent(line string) string { return line[:len(line)-len(strings.TrimLeft(line, " \t"))] }
