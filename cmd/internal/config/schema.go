package config

import (
	"reflect"
	"slices"
	"strings"
)

// Schema is the JSON schema of a file without the keys of owned, as the Helm chart
// holds its values to it: keys, types, words and bounds of numbers. What [Parse]
// asks beyond that it asks when the file is read.
func Schema(owned ...string) map[string]any {
	return objectSchema(reflect.TypeFor[Config](), "", owned)
}

func objectSchema(t reflect.Type, prefix string, owned []string) map[string]any {
	keys := map[string]any{}
	for i := range t.NumField() {
		f := t.Field(i)
		if key := join(prefix, f.Tag.Get("key")); !slices.Contains(owned, key) {
			keys[f.Tag.Get("key")] = schemaOf(f.Type, f.Tag, key, owned)
		}
	}
	return map[string]any{"type": "object", "additionalProperties": false, "properties": keys}
}

func schemaOf(t reflect.Type, tag reflect.StructTag, key string, owned []string) map[string]any {
	switch t {
	case durationType:
		return worded(timeForm().String())
	case sizeType:
		return worded(sizeForm().String())
	case mountType:
		return map[string]any{"type": "string", "pattern": "^/"}
	}
	switch t.Kind() {
	case reflect.Struct:
		return objectSchema(t, key, owned)
	case reflect.Map:
		return map[string]any{"type": "object", "maxProperties": maxItems, "additionalProperties": schemaOf(t.Elem(), "", key, owned)}
	case reflect.Slice:
		return map[string]any{"type": "array", "maxItems": maxItems, "items": schemaOf(t.Elem(), "", key, owned)}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int64:
		return map[string]any{"type": "integer", "minimum": number(tag.Get("min"), 0), "maximum": number(tag.Get("max"), 1_000_000_000)}
	}
	if words := strings.Fields(tag.Get("oneof")); len(words) > 0 {
		return map[string]any{"enum": words}
	}
	return map[string]any{"type": "string"}
}

// worded is a value with its unit; only nothing at all needs none.
func worded(form string) map[string]any {
	return map[string]any{"anyOf": []any{map[string]any{"type": "string", "pattern": form}, map[string]any{"const": 0}}}
}

// RestartKeys are the keys that a running server can't take over.
func RestartKeys() []string { return restartKeys(reflect.TypeFor[Config](), "") }

func restartKeys(t reflect.Type, prefix string) (keys []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		key := join(prefix, f.Tag.Get("key"))
		switch {
		case f.Tag.Get("restart") != "":
			keys = append(keys, key)
		case f.Type.Kind() == reflect.Struct:
			keys = append(keys, restartKeys(f.Type, key)...)
		}
	}
	return keys
}
