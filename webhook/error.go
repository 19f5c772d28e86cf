package webhook

import (
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/writbot/writ/kernel"
)

// Error is a refusal by its code.
type Error struct {
	Code   kernel.Code
	Detail string // a sentence for the sender, or empty; no secret, no piece of a body
	Cause  error  // for the log alone
}

func (e *Error) Error() string {
	text := string(e.Code) + ": " + e.Code.Info().Meaning
	if e.Detail != "" {
		text += " " + e.Detail
	}
	return text
}

// FailureCode is the code.
func (e *Error) FailureCode() kernel.Code { return e.Code }

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Cause }

func refuse(c kernel.Code, detail string) error { return &Error{Code: c, Detail: detail} }

// status is what a sender is told with a code. Codes that aren't here are no
// fault of the sender.
func status(c kernel.Code) int {
	switch c {
	case kernel.CodeSigMissing, kernel.CodeSigAlgo, kernel.CodeSigMalformed, kernel.CodeSigMismatch, kernel.CodeSigStale, kernel.CodeSigProject:
		return http.StatusUnauthorized
	case kernel.CodeBodyTimeout, kernel.CodeHeaderTimeout:
		return http.StatusRequestTimeout
	case kernel.CodeBodyTooLarge:
		return http.StatusRequestEntityTooLarge
	case kernel.CodeBodyType, kernel.CodeBodyEncoding:
		return http.StatusUnsupportedMediaType
	case kernel.CodeBodyDepth, kernel.CodeBodyDuplicate, kernel.CodeBodyMalformed, kernel.CodeDeliveryInvalid:
		return http.StatusBadRequest
	case kernel.CodeWebhookNotFound:
		return http.StatusNotFound
	case kernel.CodeWebhookHost:
		return http.StatusMisdirectedRequest
	case kernel.CodeWebhookMethod:
		return http.StatusMethodNotAllowed
	case kernel.CodeWebhookBusy, kernel.CodeWebhookStore:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// retryAfter is how many seconds a sender should wait, "" if sending the same
// again is no use. A full receiver empties within a second; a store that can't
// write needs a person.
func retryAfter(c kernel.Code) string {
	switch c {
	case kernel.CodeWebhookBusy:
		return "1"
	case kernel.CodeWebhookStore:
		return "10"
	}
	return ""
}

// fault is the error as a refusal; what isn't one becomes webhook.internal, and
// its text goes to the log alone.
func fault(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	var p *panicked
	if errors.As(err, &p) {
		return &Error{Code: kernel.CodeWebhookPanic, Cause: err}
	}
	var h *echo.HTTPError
	if errors.As(err, &h) {
		switch h.Code {
		case http.StatusNotFound:
			return &Error{Code: kernel.CodeWebhookNotFound}
		case http.StatusMethodNotAllowed:
			return &Error{Code: kernel.CodeWebhookMethod}
		}
	}
	return &Error{Code: kernel.CodeWebhookInternal, Cause: err}
}

// answer is the body of what a hook answers, and of every refusal.
type answer struct {
	Delivery string      `json:"delivery,omitempty"`
	Outcome  string      `json:"outcome,omitempty"`
	Code     kernel.Code `json:"code,omitempty"`
	Error    string      `json:"error,omitempty"`
	Next     string      `json:"next,omitempty"`
}

func explain(c kernel.Code, detail string) answer {
	info := c.Info()
	a := answer{Code: c, Error: info.Meaning, Next: info.Remedy}
	if detail != "" {
		a.Error += " " + detail
	}
	return a
}

// answerError answers an error of a handler or middleware. A request whose head comes too
// slowly to reach one is answered by [watchedConn.tooSlow], and one whose head is too large
// or malformed by net/http.
func (s *Server) answerError(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	e := fault(err)
	n := noteOf(c)
	n.code, n.cause = e.Code, e.Cause
	if after := retryAfter(e.Code); after != "" {
		c.Response().Header().Set("Retry-After", after)
	}
	a := explain(e.Code, e.Detail)
	a.Delivery = n.delivery
	n.failed = c.JSON(status(e.Code), a)
}
