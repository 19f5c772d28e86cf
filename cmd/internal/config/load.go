package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/writbot/writ/compliance/strictyaml"
	"github.com/writbot/writ/kernel"
)

// MaxBytes is the size of a configuration file. One with every key and ten
// builders has a few KiB.
const MaxBytes = 256 << 10

// Fault is one thing that is wrong with a file.
type Fault struct {
	Line   int    // from 1; 0 where no line is concerned
	Key    string // dotted; "" is the file
	Detail string // a sentence that says what to do
}

// Error lists everything that is wrong with a file. Its code is config.invalid.
type Error struct {
	File   string
	Faults []Fault // in the order of the text
	Unread bool    // the file itself can't be read: no key is at fault
}

// Error has one line for each fault: code, file:line, key, sentence.
func (e *Error) Error() string {
	lines := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		lines[i] = string(kernel.CodeConfigInvalid) + ": " + e.File
		if f.Line > 0 {
			lines[i] += fmt.Sprintf(":%d", f.Line)
		}
		if f.Key != "" {
			lines[i] += ": " + f.Key
		}
		lines[i] += ": " + f.Detail
	}
	return strings.Join(lines, "\n")
}

// FailureCode is config.invalid.
func (e *Error) FailureCode() kernel.Code { return kernel.CodeConfigInvalid }

// Load reads the file at path. Errors are *Error.
func Load(path string) (Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return Config{}, unreadable(path, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if err != nil {
		return Config{}, unreadable(path, err)
	}
	return Parse(path, data)
}

func unreadable(path string, err error) *Error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return &Error{File: path, Unread: true, Faults: []Fault{{Detail: "The file can't be read (" + err.Error() + "); check path and permissions."}}}
}

// Parse reads a file's bytes on top of [Default]; name is for messages. Errors
// are *Error and list every fault.
func Parse(name string, data []byte) (Config, error) {
	c := Default()
	r := &reader{}
	if n := r.document(data); n != nil {
		r.value(n, reflect.ValueOf(&c).Elem(), "", "")
		r.unread = len(r.faults)
		r.check(&c)
	}
	if len(r.faults) > 0 {
		slices.SortStableFunc(r.faults, func(a, b Fault) int {
			return cmp.Or(a.Line-b.Line, strings.Compare(a.Key, b.Key))
		})
		return Config{}, &Error{File: name, Faults: r.faults}
	}
	return c, nil
}

// reader collects faults while a document is read.
type reader struct {
	faults []Fault
	unread int            // how many of them are of values that could not be read
	lines  map[string]int // of keys that were read
}

func (r *reader) fail(line int, key, format string, args ...any) {
	r.faults = append(r.faults, Fault{Line: line, Key: key, Detail: fmt.Sprintf(format, args...)})
}

// doubt is a fault of what was read: at the key's line, or at that of what it
// would stand in. Nothing is said of what could not be read in the first place.
func (r *reader) doubt(key, detail string) {
	for _, f := range r.faults[:r.unread] {
		if f.Key == key || strings.HasPrefix(f.Key, key+".") || f.Key != "" && strings.HasPrefix(key, f.Key+".") {
			return
		}
	}
	line, at := r.lines[key], key
	for line == 0 && strings.Contains(at, ".") {
		at = at[:strings.LastIndexByte(at, '.')]
		line = r.lines[at]
	}
	r.fail(line, key, "%s", detail)
}

// document finds the one mapping of a file. An empty file is the default.
func (r *reader) document(data []byte) *yaml.Node {
	r.lines = map[string]int{}
	n, fault := strictyaml.Document(data, MaxBytes)
	if fault != nil {
		r.fail(fault.Line, "", "%s", fault.Detail)
	}
	return n
}
