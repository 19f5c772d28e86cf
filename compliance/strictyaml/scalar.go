package strictyaml

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/writbot/writ/compliance/lazyregexp"
)

// scalar reads a scalar with this tag.
func scalar(tag, what string, set func(r *Reader, n *yaml.Node, path string)) Field {
	return func(r *Reader, n *yaml.Node, path string) {
		if !r.plain(n, path) {
			return
		}
		if n.Kind != yaml.ScalarNode || n.Tag != tag {
			r.Fail(n, path, "It must be %s.", what)
			return
		}
		set(r, n, path)
	}
}

// Text reads text; check returns a sentence about what is wrong with it, or "".
func Text(dst *string, check func(string) string) Field {
	return scalar("!!str", "text; put it in quotes", func(r *Reader, n *yaml.Node, path string) {
		if check != nil {
			if why := check(n.Value); why != "" {
				r.Fail(n, path, "%s", why)
				return
			}
		}
		*dst = n.Value
	})
}

// Word reads one of some words.
func Word(dst *string, words ...string) Field {
	return Text(dst, func(s string) string {
		if slices.Contains(words, s) {
			return ""
		}
		return "It must be " + strings.Join(words, " or ") + "."
	})
}

// Texts reads a list of texts. An item that is written twice is refused.
func Texts(dst *[]string, most int, check func(string) string) Field {
	return func(r *Reader, n *yaml.Node, path string) {
		list := []string{}
		Items(most, func(int) Field {
			return func(r *Reader, n *yaml.Node, path string) {
				before := len(r.Faults)
				var s string
				Text(&s, check)(r, n, path)
				switch {
				case len(r.Faults) > before:
				case slices.Contains(list, s):
					r.Fail(n, path, "It is listed twice.")
				default:
					list = append(list, s)
				}
			}
		})(r, n, path)
		*dst = list
	}
}

// Words reads a list of texts in which the same one may stand twice, as in a
// command line.
func Words(dst *[]string, most int, check func(string) string) Field {
	return func(r *Reader, n *yaml.Node, path string) {
		list := []string{}
		Items(most, func(int) Field {
			return func(r *Reader, n *yaml.Node, path string) {
				var s string
				Text(&s, check)(r, n, path)
				list = append(list, s)
			}
		})(r, n, path)
		*dst = list
	}
}

// Verbatim reads a field whose scalars stand in the document as they are: a
// reader sees the value itself, no escape and no lines that are folded.
func Verbatim(data []byte, field Field) Field {
	lines := strings.Split(string(data), "\n")
	var check func(r *Reader, n *yaml.Node, path string)
	check = func(r *Reader, n *yaml.Node, path string) {
		for i, c := range n.Content {
			check(r, c, path+"."+strconv.Itoa(i))
		}
		if n.Kind == yaml.ScalarNode && !stands(lines, n) {
			r.Fail(n, path, "It is written with escapes or over several lines; write it as it is.")
		}
	}
	return func(r *Reader, n *yaml.Node, path string) {
		before := len(r.Faults)
		if field(r, n, path); len(r.Faults) == before {
			check(r, n, path)
		}
	}
}

// stands reports whether a scalar's value is what is written at its place.
func stands(lines []string, n *yaml.Node) bool {
	if n.Line < 1 || n.Line > len(lines) {
		return false
	}
	line := []rune(lines[n.Line-1])
	written := string(line[min(max(n.Column-1, 0), len(line)):])
	if n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
		return strings.HasPrefix(written[min(1, len(written)):], n.Value)
	}
	return strings.HasPrefix(written, n.Value)
}

// Bool reads true or false.
func Bool(dst *bool) Field {
	return scalar("!!bool", "true or false", func(_ *Reader, n *yaml.Node, _ string) {
		*dst = strings.EqualFold(n.Value, "true")
	})
}

var decimal = lazyregexp.New(`^(0|[1-9][0-9]{0,15})$`)

// Int reads a decimal number from least to most.
func Int(dst *int64, least, most int64) Field {
	return scalar("!!int", "a whole number", func(r *Reader, n *yaml.Node, path string) {
		v, err := strconv.ParseInt(n.Value, 10, 64)
		if err != nil || !decimal().MatchString(n.Value) || v < least || v > most {
			r.Fail(n, path, "It must be a whole number from %d to %d.", least, most)
			return
		}
		*dst = v
	})
}

var duration = lazyregexp.New(`^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?([0-9]{1,6}ms)?$`)

// Duration reads a time such as 30s, 10m or 1h30m into milliseconds.
func Duration(dst *int64, least, most time.Duration) Field {
	return scalar("!!str", "a time with its unit, such as 30s or 10m", func(r *Reader, n *yaml.Node, path string) {
		d, err := time.ParseDuration(n.Value)
		if err != nil || !duration().MatchString(n.Value) || d < least || d > most {
			r.Fail(n, path, "It must be a time from %v to %v, such as 30s, 10m or 1h30m.", least, most)
			return
		}
		*dst = d.Milliseconds()
	})
}

var size = lazyregexp.New(`^([1-9][0-9]{0,9})(B|KiB|MiB|GiB)$`)

// Size reads a number of bytes such as 512KiB or 4MiB.
func Size(dst *int64, least, most int64) Field {
	return scalar("!!str", "a size with its unit, such as 4MiB", func(r *Reader, n *yaml.Node, path string) {
		if m := size().FindStringSubmatch(n.Value); m != nil {
			v, _ := strconv.ParseInt(m[1], 10, 64)
			v *= map[string]int64{"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[m[2]]
			if v >= least && v <= most {
				*dst = v
				return
			}
		}
		r.Fail(n, path, "It must be a size from %d to %d bytes, in B, KiB, MiB or GiB, such as 4MiB.", least, most)
	})
}
