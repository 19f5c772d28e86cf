package tracing

import (
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

// The attributes that say what a span concerns, and what came of it.
const (
	World    = attribute.Key("writ.world")
	Task     = attribute.Key("writ.task")
	Run      = attribute.Key("writ.run")
	Delivery = attribute.Key("writ.delivery")
	Hook     = attribute.Key("writ.hook")
	Event    = attribute.Key("writ.event")
	Outcome  = attribute.Key("writ.outcome")
	Code     = attribute.Key("writ.code")
)

// ids are the attributes that a span takes from its parent.
var ids = map[attribute.Key]bool{World: true, Task: true, Run: true, Delivery: true}

// End ends a span with what came of it: "" is success.
func End(span trace.Span, code string) {
	if code != "" {
		span.SetAttributes(Code.String(code))
		span.SetStatus(codes.Error, code)
	}
	span.End()
}

// CodeOf is an error's code, without its words: they may be somebody else's.
// "" is no error.
func CodeOf(err error) string {
	var coded interface{ FailureCode() kernel.Code }
	var ofForge *forge.Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &ofForge):
		return "forge: " + string(ofForge.Reason)
	case errors.As(err, &coded):
		return string(coded.FailureCode())
	}
	return gitCode(err)
}

// gitCode is the code of an error that may be git's.
func gitCode(err error) string {
	if code := git.CodeOf(err); code != "" {
		return code
	}
	return "error"
}
