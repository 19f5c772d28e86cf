package gateway

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Basis says what a [Usage] was taken from.
type Basis string

// The bases. With the last two the numbers are what was reserved for the request.
const (
	Measured Basis = "measured" // from the provider's answer
	Reserved Basis = "reserved" // the answer ended before it said what was used
	Unknown  Basis = "unknown"  // the whole answer didn't say it, or not in a form that is known
)

// Usage is what one request to a provider used, in tokens. None is counted twice: Input is
// what was neither read from the provider's cache nor written to it.
type Usage struct {
	Model      string `json:"model"`
	Basis      Basis  `json:"basis"`
	Input      int64  `json:"input"`
	CacheRead  int64  `json:"cache_read"`
	CacheWrite int64  `json:"cache_write"`
	Output     int64  `json:"output"`
}

// What is reserved for a request. Texts have more bytes for each token than BytesPerToken.
const (
	BytesPerToken = 3
	// DefaultOutput are the tokens of an answer to a request that sets no bound.
	DefaultOutput = 32_768
	// maxOutput and maxTimes are the largest bound of an answer and the most answers that a
	// request may ask for: no model writes more, and no provider gives more.
	maxOutput = 1 << 30
	maxTimes  = 128
	// maxCount is the largest number that is believed of an answer.
	maxCount = 1<<53 - 1
)

// usageForm is how an interface tells what an answer used. A path has the names of objects
// with dots between them.
type usageForm struct {
	// wrap is the object of a stream's event that has what an answer has that is no stream.
	wrap string
	// begins says that a number in wrap is that of an answer which has only begun.
	begins bool
	// input, read, written and output are the paths of the numbers; moreInput and moreOutput
	// those of others that are a part of neither, and add up with them.
	input, read, written, output string
	moreInput, moreOutput        string
	// ends is the path of what an answer has once it is whole; "" where the output says that.
	// A number may be missing then, and is 0.
	ends string
	// whole says that the input includes what was read from the cache and written to it.
	whole bool
	// asked are the paths of a request's bound of its answer; the highest one counts. times
	// is that of how many answers it asks for.
	asked []string
	times string
	// silent says that a stream tells what it used only where it is asked to.
	silent bool
}

var usageForms = map[string]usageForm{
	"messages": {
		wrap: "message.", begins: true,
		input: "usage.input_tokens", read: "usage.cache_read_input_tokens", written: "usage.cache_creation_input_tokens", output: "usage.output_tokens",
		asked: []string{"max_tokens"}, times: "n",
	},
	"responses": {
		wrap: "response.", whole: true,
		input: "usage.input_tokens", read: "usage.input_tokens_details.cached_tokens", written: "usage.input_tokens_details.cache_write_tokens", output: "usage.output_tokens",
		asked: []string{"max_output_tokens"}, times: "n",
	},
	"chat": {
		whole: true,
		input: "usage.prompt_tokens", read: "usage.prompt_tokens_details.cached_tokens", written: "usage.prompt_tokens_details.cache_write_tokens", output: "usage.completion_tokens",
		asked: []string{"max_completion_tokens", "max_tokens"}, times: "n",
		silent: true,
	},
	// Each event of a stream has all numbers so far, and is an answer of its own; without
	// alt=sse they are the elements of one list.
	"gemini": {
		wrap: ".", whole: true,
		input: "usageMetadata.promptTokenCount", read: "usageMetadata.cachedContentTokenCount", output: "usageMetadata.candidatesTokenCount",
		moreInput: "usageMetadata.toolUsePromptTokenCount", moreOutput: "usageMetadata.thoughtsTokenCount",
		ends:  "candidates..finishReason",
		asked: []string{"generationConfig.maxOutputTokens"}, times: "generationConfig.candidateCount",
	},
}

// meter reads what a request used from its answer, as the answer streams by. It keeps some
// numbers of it and nothing else.
type meter struct {
	form     usageForm
	reserved Usage
	stream   bool
	picker   picker
	lines    lines

	model   string
	counts  map[string]int64
	final   bool // the numbers are those of the whole answer
	wrong   bool // a number isn't one
	whole   bool // the answer came to its end
	kind    string
	failure string // the word for what the answer says went wrong
}

// meterOf is that for a request whose body is sent. nil if the endpoint costs nothing.
func (e endpoint) meterOf(body any, size int, path string) *meter {
	form, ok := usageForms[e.Usage]
	if !ok {
		return nil
	}
	o, _ := body.(object)
	m := &meter{form: form, counts: map[string]int64{}}
	model, _ := o.get("model").(string)
	if named, ok := e.model(path); ok {
		model = named
	}
	m.reserved = Usage{Model: modelName(model), Basis: Reserved, Input: (int64(size) + BytesPerToken - 1) / BytesPerToken}
	for _, name := range form.asked {
		if n, ok := whole(o.at(name), maxOutput); ok {
			m.reserved.Output = max(m.reserved.Output, n)
		}
	}
	if m.reserved.Output == 0 {
		m.reserved.Output = DefaultOutput
	}
	if n, ok := whole(o.at(form.times), maxTimes); ok {
		m.reserved.Output *= n // 2^37 at most
	}
	m.picker.take = m.take
	m.lines.picker = &m.picker
	return m
}

// modelName is a model's name without what no provider has in one: the inside may have
// chosen it.
func modelName(text string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("._:/-", r) || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
			return r
		}
		return '?'
	}, clipped(text))
}

// whole is a number of a body; false for one that isn't from 1 to most, or is spelled in
// another way than by its digits.
func whole(v any, most int64) (int64, bool) {
	text, _ := v.(jsontext.Value)
	n, err := strconv.ParseInt(text.String(), 10, 64)
	return n, err == nil && n >= 1 && n <= most
}

// bounded refuses a bound of the answer, or a number of answers, that a provider may read and
// the meter doesn't: less than the provider gives would be reserved for it.
func (e endpoint) bounded(body any) error {
	o, _ := body.(object)
	form := usageForms[e.Usage]
	check := func(name string, most int64) error {
		v := o.at(name)
		if _, ok := whole(v, most); ok || v == nil {
			return nil
		}
		return refused(name, fmt.Sprintf("it isn't a whole number from 1 to %d", most))
	}
	for _, name := range form.asked {
		if err := check(name, maxOutput); err != nil {
			return err
		}
	}
	return check(form.times, maxTimes)
}

// askUsage has an answer say what it used that wouldn't otherwise.
func (e endpoint) askUsage(body any) any {
	o, _ := body.(object)
	if !usageForms[e.Usage].silent || o.get("stream") != true {
		return body
	}
	options, _ := o.get("stream_options").(object)
	return o.with("stream_options", options.with("include_usage", true))
}

// at is what stands at a path; nil for nothing.
func (o object) at(path string) any {
	name, rest, deeper := strings.Cut(path, ".")
	if !deeper {
		return o.get(name)
	}
	inner, _ := o.get(name).(object)
	return inner.at(rest)
}

// with is the object with one member changed, or added at its end.
func (o object) with(name string, value any) object {
	out := slices.DeleteFunc(slices.Clone(o), func(m member) bool { return m.name == name })
	return append(out, member{name, value})
}

type meteredBody struct {
	io.ReadCloser
	m *meter
}

func (b *meteredBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	for _, c := range p[:n] {
		if b.m.stream {
			b.m.lines.eat(c)
		} else {
			b.m.picker.eat(c)
		}
	}
	b.m.whole = b.m.whole || err == io.EOF
	return n, err
}

// take takes in one value of an answer.
func (m *meter) take(path, value string, isText bool) {
	inner, wrapped := strings.CutPrefix(path, m.form.wrap)
	if m.form.wrap == "" {
		wrapped = false
	}
	switch inner {
	case "model", "modelVersion":
		if isText && value != "" {
			m.model = modelName(value)
		}
	case "type":
		m.kind = value
	case "stop_reason", "delta.stop_reason":
		if value == "model_context_window_exceeded" {
			m.failure = FailureContext
		}
	case "error.code", "error.type":
		// A code says more than a type, and comes before or behind it.
		if isText && (m.failure == "" || inner == "error.code") {
			m.failure = clipped(value)
		}
	case "code":
		if isText && !wrapped && m.kind == "error" {
			m.failure = clipped(value)
		}
	case "": // what a form doesn't have
	case m.form.ends:
		m.final = m.final || isText && value != ""
	case m.form.input, m.form.read, m.form.written, m.form.output, m.form.moreInput, m.form.moreOutput:
		if value == "null" && !isText {
			return
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if m.wrong = m.wrong || isText || err != nil || n < 0 || n > maxCount; !m.wrong {
			m.counts[inner] = n
		}
		m.final = m.final || m.form.ends == "" && inner == m.form.output && (!wrapped || !m.form.begins)
	}
}

// used is what the request used, once its answer has ended.
func (m *meter) used() *Usage {
	u := Usage{Model: m.model, Basis: Measured, CacheRead: m.counts[m.form.read], CacheWrite: m.counts[m.form.written], Output: m.counts[m.form.output]}
	if u.Model == "" {
		u.Model = m.reserved.Model
	}
	input, said := m.counts[m.form.input]
	if u.Input = input; m.form.whole {
		u.Input -= u.CacheRead + u.CacheWrite
	}
	sound := said && !m.wrong && u.Input >= 0
	u.Input, u.Output = u.Input+m.counts[m.form.moreInput], u.Output+m.counts[m.form.moreOutput]
	if sound && m.final && (m.form.ends == "" || m.whole) {
		return &u
	}
	u = Usage{Model: u.Model, Basis: Reserved, Input: m.reserved.Input, Output: max(m.reserved.Output, u.Output)}
	if m.whole && (m.final || m.wrong || !m.stream) {
		u.Basis = Unknown
	}
	return &u
}
