package config

import (
	"path"
	"strings"

	"github.com/writbot/writ/compliance/lazyregexp"
)

// What to write instead, for mistakes that many make.

// meant is the known word that a mistyped one most likely is, "" if none is near.
func meant(word string, known []string) string {
	const most = 2 // slips
	word = strings.ToLower(word)
	best, at := "", most+1
	for _, k := range known {
		d := slips(strings.ReplaceAll(word, "-", "_"), k)
		if d < at && d < len(k)/2 {
			best, at = k, d
		}
	}
	return best
}

// slips counts letters that are missing, too many, wrong, or have changed places.
func slips(a, b string) int {
	prev, row := make([]int, len(b)+1), make([]int, len(b)+1)
	var last []int
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			wrong := 1
			if a[i-1] == b[j-1] {
				wrong = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+wrong)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], last[j-2]+1)
			}
		}
		last, prev, row = prev, row, make([]int, len(b)+1)
	}
	return prev[len(b)]
}

// maxWordSlips keeps long nonsense from being compared.
const maxWordSlips = 64

func didYouMean(word string, known []string) string {
	if len(word) <= maxWordSlips {
		if k := meant(word, known); k != "" {
			return " Did you mean " + k + "?"
		}
	}
	return ""
}

var (
	loneCount = lazyregexp.New(`^[0-9]{1,12}$`)
	shortSize = lazyregexp.New(`^([0-9]{1,10}) ?([kKMGT])i?[bB]?$`)
)

// withUnit says how a bare number is written with its unit, "" for what is none.
func withUnit(text, units string) string {
	if !loneCount().MatchString(text) {
		return ""
	}
	example := text + "s, " + text + "m or " + text + "h"
	if units == "size" {
		example = text + "KiB, " + text + "MiB or " + text + "GiB"
	}
	return "It must be text with its unit: " + example + "."
}

// wantPath is what is said of a relative path.
func wantPath(p string) string {
	name := path.Base(path.Clean("/" + p))
	if name == "/" {
		name = "state"
	}
	return "It must be an absolute path, such as /var/lib/writ/" + join("", name) + ": what a relative one means would depend on where writ is started."
}
