package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Codes say why a connection was denied, failed or ended early.
const (
	CodeRequest     = "egress.request_invalid"    // no request, or one that two readers may read differently
	CodeHostInvalid = "egress.host_invalid"       // the host is no whole domain name
	CodeLiteral     = "egress.ip_literal"         // the host is an address, however it is spelled
	CodeHost        = "egress.host_denied"        // a list has no rule for the host
	CodePort        = "egress.port_denied"        // the rules for the host don't have the port
	CodeMethod      = "egress.method_denied"      // the rules don't have the method, or it can't be seen
	CodeUpgrade     = "egress.upgrade_denied"     // another protocol was asked for or answered with
	CodeAddress     = "egress.address_denied"     // the name leads to an address that must not be reached
	CodeNotTLS      = "egress.not_tls"            // a tunnel didn't begin with a TLS ClientHello
	CodeNoName      = "egress.name_missing"       // the ClientHello names no server
	CodeEncrypted   = "egress.name_encrypted"     // the ClientHello hides a name
	CodeMismatch    = "egress.name_mismatch"      // the request speaks of two hosts
	CodeTunnel      = "egress.tunnel_denied"      // the gateway itself speaks TLS to this host, with a credential
	CodeUpstream    = "egress.upstream_untrusted" // the outside didn't show by TLS that it is the host
	CodeEcho        = "egress.credential_echoed"  // the outside answered with the credential
	CodeEndpoint    = "egress.endpoint_denied"    // the provider has it, and its table doesn't
	CodeBody        = "egress.body_denied"        // the provider's table doesn't have what is in the body
	CodeBudget      = "egress.budget_reached"     // what the run may use of models doesn't pay the request
	CodeProvider    = "egress.provider_refused"   // the provider refused the request for a reason of the account's
	CodeEncoded     = "egress.answer_encoded"     // the provider compressed its answer, though it was asked not to
	CodeUnreachable = "egress.unreachable"        // the name wasn't found, or nobody answered
	CodeBroken      = "egress.connection_broken"  // the connection broke off
	CodeOpen        = "egress.limit_open"         // too many connections at once
	CodeTotal       = "egress.limit_total"        // too many connections in all
	CodeUp          = "egress.limit_up"           // too many bytes to the outside
	CodeDown        = "egress.limit_down"         // too many bytes from the outside
	CodeTime        = "egress.limit_time"         // the run's time is over
	CodeInternal    = "egress.internal"           // a mistake in the gateway
)

// Verdict says in one word what became of a connection.
type Verdict string

// The verdicts.
const (
	Allowed Verdict = "allowed" // it was served, until one side ended it
	Denied  Verdict = "denied"  // a rule refused it
	Failed  Verdict = "failed"  // it was allowed, and the outside didn't answer
	Cut     Verdict = "cut"     // it reached a limit
)

// Mode says how a connection was asked for.
type Mode string

// The modes. A connection without one ended before it asked.
const (
	Connect Mode = "connect" // a tunnel for TLS
	Plain   Mode = "plain"   // one HTTP request
	Reverse Mode = "reverse" // one HTTP request, for which the gateway speaks TLS and has a credential
)

// Record is what became of one connection. Its texts are of printable ASCII and at
// most maxText long, whatever the inside has sent.
type Record struct {
	At      time.Time `json:"at"` // when it began
	Mode    Mode      `json:"mode,omitempty"`
	Host    string    `json:"host,omitempty"`
	Port    uint16    `json:"port,omitempty"`
	Method  string    `json:"method,omitempty"` // of a plain request
	Verdict Verdict   `json:"verdict"`
	Code    string    `json:"code,omitempty"`    // empty if it was served to its end
	Rule    string    `json:"rule,omitempty"`    // which list and rule decided
	Detail  string    `json:"detail,omitempty"`  // one phrase for a person
	Address string    `json:"address,omitempty"` // to which it was connected
	Up      int64     `json:"up_bytes"`          // to the outside
	Down    int64     `json:"down_bytes"`        // from the outside
	Millis  int64     `json:"duration_ms"`
	// API is the interface of the provider that was asked, and Status that of its answer, 0
	// where there was none.
	API    string `json:"api,omitempty"`
	Status int    `json:"status,omitempty"`
	// Usage is what the request used; nil where it costs nothing, or was refused.
	Usage *Usage `json:"usage,omitempty"`
	// Failure is the provider's word for what went wrong in an answer that began well
	// (overloaded_error), or [FailureContext].
	Failure string `json:"failure,omitempty"`
}

// FailureContext is the word for a request that is longer than the model's context, whatever
// the provider's own is.
const FailureContext = "context_length_exceeded"

// maxText bounds each text of a record, in bytes: the longest name of a host.
const maxText = maxName

// clean makes a text from the inside fit for a record. What is before an @ may be
// a password, and nobody needs it.
func clean(text string) string {
	text = text[strings.LastIndexByte(text, '@')+1:]
	text = text[:min(len(text), maxText)]
	b := []byte(text)
	for i, c := range b {
		if c <= ' ' || c > '~' {
			b[i] = '?'
		}
	}
	return string(b)
}

// fault is why a connection wasn't served to its end.
type fault struct {
	verdict Verdict
	code    string
	msg     string
	err     error
}

func (f *fault) Error() string { return f.msg }
func (f *fault) Unwrap() error { return f.err }

func denied(code, msg string) error      { return &fault{verdict: Denied, code: code, msg: msg} }
func failed(msg string, err error) error { return &fault{Failed, CodeUnreachable, msg, err} }
func cut(code, msg string) error         { return &fault{verdict: Cut, code: code, msg: msg} }

// asFault finds the fault in an error. Any other is of a connection that broke off,
// and who breaks one off, and why, can't be seen from here.
func asFault(err error) *fault {
	var f *fault
	if !errors.As(err, &f) {
		f = &fault{Allowed, CodeBroken, "the connection broke off", err}
	}
	return f
}

// answer is what the inside is told of a fault: its code, and no address or rule.
func (f *fault) answer() string {
	status := http.StatusForbidden
	switch {
	case f.code == CodeRequest:
		status = http.StatusBadRequest
	case f.verdict == Failed, f.verdict == Allowed:
		status = http.StatusBadGateway
	case f.verdict == Cut:
		status = http.StatusServiceUnavailable
	}
	kind, body := "text/plain", f.code+"\n"
	if f.code == CodeBody || f.code == CodeEndpoint || f.code == CodeBudget {
		// An agent shows what its provider says, and takes 400 for final.
		status, kind, body = http.StatusBadRequest, "application/json", string(providersError("invalid_request_error", f.code, f.msg))
	}
	return fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: %s\r\n%s: false\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		status, http.StatusText(status), kind, shouldRetry, len(body), body)
}
