package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

func itoa(i int) string { return strconv.Itoa(i) }

const intro = `# Configuration

What the operator of a machine decides: which programs may do the work, how they are isolated, and the most that a repository may ask for. It is one YAML file, given with ` + "`--config FILE`" + `. Without one every default below applies; a builder then comes from ` + "`--builder`" + `.

The file is read strictly. An unknown key, a key that is there twice, a second document or a value out of its bounds is ` + "`config.invalid`" + `, with file, line, key and what to do; all faults are listed at once. Times are written ` + "`30s`, `10m`, `1h30m`" + `, sizes ` + "`512KiB`, `4GiB`" + `.

No secret stands in this file. Nothing of writ's own environment reaches a builder or a check.

A running ` + "`writ serve`" + ` takes a changed file over by itself, but for the keys below that need a restart: [operations.md](operations.md#reload).

` + "```yaml" + `
builders:
  default:
    argv: [gofmt, -w, .]
    ro: [/usr/local/go]
checks:
  ro: [/usr/local/go]
lease: {seconds: 120}
` + "```" + `

What a task may do to a repository is not decided here but in the repository's own contract: ` + "`writ contract init`" + ` writes one with every key explained.

Neither file is read generously. In a contract, a value whose feature isn't built yet is ` + "`governance.invalid`" + `, and no task of the repository runs until it is out: whoever wrote it would rely on a rule that nobody keeps. So for ` + "`deliver.as: push`" + `, ` + "`overlap: wait`" + `, ` + "`candidates`" + ` above 1, ` + "`plan.approval`" + `, and anything under ` + "`paths.tests`" + `, ` + "`commit.signoff`" + `, ` + "`commit.sign`" + `, ` + "`evidence: digest`" + `, ` + "`branches`" + ` and ` + "`mechanisms`" + `. What says what is done anyway is taken, such as ` + "`candidates: 1`" + ` or ` + "`mechanisms: []`" + `. In this file, keys that another one makes idle are refused where somebody could rely on them: a section ` + "`forges.local`" + ` without ` + "`dir`" + `, a ` + "`private_key`" + ` without ` + "`app_id`" + `, ` + "`server.traces.headers`" + ` without an endpoint.

## Keys

This list is printed by the program from the struct that it reads the file into.

| key | default | meaning |
|---|---|---|
`

// Reference is the manual page of the file, in Markdown: docs/configuration.md.
func Reference() string {
	var b strings.Builder
	b.WriteString(intro)
	rows(&b, reflect.ValueOf(Default()), "")
	return b.String()
}

func rows(b *strings.Builder, v reflect.Value, prefix string) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		key := join(prefix, f.Tag.Get("key"))
		field := v.Field(i)
		doc := f.Tag.Get("doc")
		if words := strings.Fields(f.Tag.Get("oneof")); len(words) > 0 {
			doc = strings.Join(words, " or ") + ". " + doc
		}
		if f.Tag.Get("restart") != "" {
			doc += " Needs a restart."
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", key, show(field), strings.ReplaceAll(doc, "|", `\|`))
		switch {
		case field.Kind() == reflect.Struct:
			rows(b, field, key)
		case field.Kind() == reflect.Map && field.Type().Elem() == builderType:
			rows(b, reflect.ValueOf(DefaultBuilder()), key+".<name>")
		case field.Type() == reflect.TypeFor[map[string]World]():
			rows(b, reflect.ValueOf(World{}), key+".<name>")
		case field.Type() == reflect.TypeFor[map[string]Price]():
			rows(b, reflect.ValueOf(Price{}), key+".<name>")
		case field.Type() == reflect.TypeFor[[]Egress]() && key == "checks.egress": // the others have the same keys
			rows(b, reflect.ValueOf(Egress{}), key+".<n>")
		case field.Type() == reflect.TypeFor[[]GitLabHook]():
			rows(b, reflect.ValueOf(GitLabHook{}), key+".<n>")
		}
	}
}

// show writes a default as it would stand in the file.
func show(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case time.Duration:
		return "`" + showTime(x) + "`"
	case Size:
		return "`" + showSize(x) + "`"
	case []string:
		return "`[" + strings.Join(x, ", ") + "]`"
	case string:
		if x == "" {
			return "`\"\"`"
		}
		return "`" + x + "`"
	}
	switch v.Kind() {
	case reflect.Struct:
		return ""
	case reflect.Map:
		return "`{}`"
	case reflect.Slice:
		return "`[]`"
	}
	return fmt.Sprintf("`%v`", v.Interface())
}
