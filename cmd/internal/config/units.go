package config

import (
	"errors"
	"fmt"
	"path"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/writbot/writ/compliance/lazyregexp"
)

// worded reads the values that are written as words: times, sizes, mounts.
func (r *reader) worded(n *yaml.Node, dst reflect.Value, key string, tag reflect.StructTag) {
	text := n.Value
	if n.Kind != yaml.ScalarNode || (n.Tag != "!!str" && text != "0") {
		detail := "It must be text with its unit; see the reference."
		if kind := map[reflect.Type]string{durationType: "time", sizeType: "size"}[dst.Type()]; kind != "" && withUnit(text, kind) != "" {
			detail = withUnit(text, kind)
		}
		r.fail(n.Line, key, "%s", detail)
		return
	}
	switch dst.Type() {
	case durationType:
		d, err := parseTime(text)
		least, _ := parseTime(tag.Get("min"))
		most, _ := parseTime(tag.Get("max"))
		if err != nil || d < least || d > most {
			r.fail(n.Line, key, "It must be a time from %s to %s, such as 30s, 10m or 1h30m.", showTime(least), showTime(most))
			return
		}
		dst.SetInt(int64(d))
	case sizeType:
		s, ok := parseSize(text)
		least, _ := parseSize(tag.Get("min"))
		if !ok || s < least || s > maxSize {
			example := inBinary(text)
			if example == "" {
				example = "4GiB"
			}
			r.fail(n.Line, key, "It must be a size from %s to %s, in B, KiB, MiB, GiB or TiB, such as %s.", showSize(least), showSize(maxSize), example)
			return
		}
		dst.SetInt(int64(s))
	case mountType:
		m, err := ParseMount(text)
		if err != nil {
			r.fail(n.Line, key, "%s", err.Error())
			return
		}
		dst.Set(reflect.ValueOf(m))
	}
}

// inBinary is a size in the units that are taken, "" for what looks like none.
func inBinary(text string) string {
	m := shortSize().FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	return m[1] + strings.ToUpper(m[2]) + "iB"
}

// errMount is a sentence of the report, and so written as one.
var errMount = errors.New("It must be a clean absolute path, or two with a colon between: /source:/target.") //nolint:staticcheck // see above

func cleanAbs(p string) bool { return path.IsAbs(p) && path.Clean(p) == p }

// ParseMount reads /source or /source:/target. The error is a sentence.
func ParseMount(text string) (Mount, error) {
	source, target, both := strings.Cut(text, ":")
	if !cleanAbs(source) || both && !cleanAbs(target) {
		return Mount{}, errMount
	}
	return Mount{Source: source, Target: target}, nil
}

var timeForm = lazyregexp.New(`^(0|([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?([0-9]{1,6}ms)?)$`)

func parseTime(s string) (time.Duration, error) {
	if !timeForm().MatchString(s) {
		return 0, strconv.ErrSyntax
	}
	return time.ParseDuration(s)
}

// showTime writes a time as people do: 2h, not 2h0m0s.
func showTime(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// maxSize keeps a slip of the pen from becoming no limit at all.
const maxSize Size = 1 << 50

var (
	sizeForm = lazyregexp.New(`^([0-9]{1,10})(B|KiB|MiB|GiB|TiB)$`)
	units    = []string{"B", "KiB", "MiB", "GiB", "TiB"}
)

func parseSize(s string) (Size, bool) {
	if s == "0" {
		return 0, true
	}
	m := sizeForm().FindStringSubmatch(s)
	if m == nil {
		return 0, false
	}
	v, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		return 0, false
	}
	for _, u := range units {
		if u == m[2] {
			break
		}
		if v > int64(maxSize) {
			return 0, false
		}
		v <<= 10
	}
	return Size(v), true
}

// showSize writes a size in its largest whole unit.
func showSize(s Size) string {
	i := 0
	for s > 0 && s%1024 == 0 && i < len(units)-1 {
		s /= 1024
		i++
	}
	if s == 0 {
		return "0"
	}
	return fmt.Sprintf("%d%s", int64(s), units[i])
}
