package config

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"
)

// YAML writes the configuration as a file that reads back the same, every key
// with its value in force. It holds no secret, since the file never does.
func (c Config) YAML() ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(node(reflect.ValueOf(c))); err != nil {
		return nil, err
	}
	return b.Bytes(), enc.Close()
}

// node is a value as the file has it.
func node(v reflect.Value) *yaml.Node {
	switch x := v.Interface().(type) {
	case time.Duration:
		return text(showTime(x))
	case Size:
		return text(showSize(x))
	case Mount:
		if x.Target == "" {
			return text(x.Source)
		}
		return text(x.Source + ":" + x.Target)
	}
	switch v.Kind() {
	case reflect.Struct:
		n := &yaml.Node{Kind: yaml.MappingNode}
		for i := range v.NumField() {
			n.Content = append(n.Content, text(v.Type().Field(i).Tag.Get("key")), node(v.Field(i)))
		}
		return n
	case reflect.Map:
		n := &yaml.Node{Kind: yaml.MappingNode}
		if v.Len() == 0 {
			n.Style = yaml.FlowStyle
		}
		for _, k := range slices.Sorted(maps.Keys(keysOf(v))) {
			n.Content = append(n.Content, text(k), node(v.MapIndex(reflect.ValueOf(k))))
		}
		return n
	case reflect.Slice:
		n := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for i := range v.Len() {
			n.Content = append(n.Content, node(v.Index(i)))
		}
		return n
	case reflect.Bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(v.Bool())}
	case reflect.Int64:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: strconv.FormatInt(v.Int(), 10)}
	}
	return text(v.String())
}

func keysOf(v reflect.Value) map[string]bool {
	keys := map[string]bool{}
	for _, k := range v.MapKeys() {
		keys[k.String()] = true
	}
	return keys
}

// text is a scalar that reads back as text, in quotes where it must be.
func text(s string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(s)
	return n
}
