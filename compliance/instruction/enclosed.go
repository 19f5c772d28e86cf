package instruction

import (
	"regexp"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// enclosing matches tags of elements that can fold away or hide what they hold.
var enclosing = regexp.MustCompile(`(?i)<(/?)(details|div|template|dialog|section|article|aside|table|select|textarea|noscript|object|svg)\b(?:"[^"]*"|'[^']*'|[^>"'])*>`)

// openElements follows the HTML at the top level: how many of each are open.
type openElements map[string]int

func (o openElements) read(src []byte, n ast.Node) {
	var html []byte
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.HTMLBlock:
			if entering {
				html = append(html, n.Lines().Value(src)...)
			}
		case *ast.RawHTML:
			if entering {
				html = append(html, n.Segments.Value(src)...)
			}
		}
		return ast.WalkContinue, nil
	})
	for _, m := range enclosing.FindAllSubmatch(html, -1) {
		name := strings.ToLower(string(m[2]))
		if len(m[1]) == 0 {
			o[name]++
		} else if o[name] > 0 {
			o[name]--
		}
	}
}

func (o openElements) any() bool {
	for _, n := range o {
		if n > 0 {
			return true
		}
	}
	return false
}
