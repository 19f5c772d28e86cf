package local

import (
	"bytes"
	"html/template"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/util"
)

// newMarkdown renders what anybody may have written: raw HTML and addresses that
// could run something are left out, because html.WithUnsafe isn't given.
func newMarkdown() goldmark.Markdown {
	const first = 1 // before goldmark's own renderers
	return goldmark.New(
		goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.TaskList),
		goldmark.WithRendererOptions(html.WithHardWraps(),
			renderer.WithNodeRenderers(util.Prioritized(noImages{}, first))),
	)
}

// noImages shows an image's words instead of loading it: to load it would tell
// its server who reads the page, and when.
type noImages struct{}

// RegisterFuncs is renderer.NodeRenderer.
func (noImages) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindImage, func(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			_, _ = w.WriteString(`<span class="tag">image</span> `) // into memory
		}
		return ast.WalkContinue, nil
	})
}

// markdown renders a text. What it returns is the only text on the page that
// isn't escaped by the template.
func markdown(md goldmark.Markdown, text string) template.HTML {
	var b bytes.Buffer
	if err := md.Convert([]byte(text), &b); err != nil {
		return template.HTML("<pre>" + template.HTMLEscapeString(text) + "</pre>")
	}
	return template.HTML(b.String())
}
