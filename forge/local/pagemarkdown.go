package local

import (
	"html/template"
	"regexp"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// newMarkdown renders what anybody may have written: raw HTML and addresses that
// could run something are left out, because html.WithUnsafe isn't given. What is to be
// folded is, as on the hosted forges.
func newMarkdown() goldmark.Markdown {
	const first = 1 // before goldmark's own renderers
	return goldmark.New(
		goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.TaskList),
		goldmark.WithParserOptions(parser.WithASTTransformers(util.Prioritized(folds{}, first))),
		goldmark.WithRendererOptions(html.WithHardWraps(),
			renderer.WithNodeRenderers(util.Prioritized(noImages{}, first), util.Prioritized(folds{}, first))),
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

// fold is a part of a text that its reader unfolds: what stands between two blocks of raw
// HTML that say so, and nothing else.
type fold struct {
	ast.BaseBlock
	summary string
}

var (
	foldKind  = ast.NewNodeKind("Fold")
	foldBegin = regexp.MustCompile(`^<details>\s*<summary>([^<>]*)</summary>\s*$`)
	foldEnd   = regexp.MustCompile(`^</details>\s*$`)
)

func (f *fold) Kind() ast.NodeKind            { return foldKind }
func (f *fold) Dump(source []byte, level int) { ast.DumpHelper(f, source, level, nil, nil) }

// folds finds and renders them. They don't stand in one another, and one without an end is
// left out as other HTML is, so that no tag is left open.
type folds struct{}

// Transform is parser.ASTTransformer.
func (folds) Transform(doc *ast.Document, reader text.Reader, _ parser.Context) {
	var begin ast.Node
	for n := doc.FirstChild(); n != nil; {
		next := n.NextSibling()
		switch said := rawHTML(n, reader.Source()); {
		case foldBegin.MatchString(said):
			begin = n
		case begin != nil && foldEnd.MatchString(said):
			f := &fold{summary: foldBegin.FindStringSubmatch(rawHTML(begin, reader.Source()))[1]}
			for in := begin.NextSibling(); in != n; in = begin.NextSibling() {
				f.AppendChild(f, in)
			}
			doc.ReplaceChild(doc, begin, f)
			doc.RemoveChild(doc, n)
			begin = nil
		}
		n = next
	}
}

// rawHTML is a block of raw HTML, "" for another node.
func rawHTML(n ast.Node, source []byte) string {
	block, ok := n.(*ast.HTMLBlock)
	if !ok {
		return ""
	}
	return string(block.Lines().Value(source))
}

// RegisterFuncs is renderer.NodeRenderer.
func (folds) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(foldKind, func(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		said := "</details>\n"
		if f, ok := n.(*fold); ok && entering {
			said = "<details><summary>" + template.HTMLEscapeString(f.summary) + "</summary>\n"
		}
		_, _ = w.WriteString(said) // into memory
		return ast.WalkContinue, nil
	})
}
