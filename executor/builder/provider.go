package builder

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/writbot/writ/executor/gateway"
	"github.com/writbot/writ/kernel"
)

// What a provider says in an answer that began with 200: that it can't go on, and that it
// doesn't serve this account.
var (
	overloads = []string{"overloaded_error", "api_error", "rate_limit_error", "timeout_error", "server_error", "rate_limit_exceeded", "server_is_overloaded", "slow_down"}
	refusals  = []string{"authentication_error", "permission_error", "billing_error", "insufficient_quota", "invalid_api_key"}
)

// contextFull says that the work of a run that failed was longer than its model's context, by
// what the gateway saw of the provider last.
func (g *egressLog) contextFull() []kernel.Violation {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.provider.Failure != gateway.FailureContext {
		return nil
	}
	return []kernel.Violation{{Code: kernel.CodeExecutionContext, Subject: g.provider.Host, Detail: "The provider's last answer says that the request is longer than the model's context."}}
}

// outage says that the provider of models did nothing for a run that failed, by what the
// gateway saw of it last. It is no failure of the builder's then.
func (g *egressLog) outage() []kernel.Violation {
	g.mu.Lock()
	defer g.mu.Unlock()
	v := kernel.Violation{Code: kernel.CodeProviderUnavailable, Subject: g.provider.Host}
	switch status := g.provider.Status; {
	case slices.Contains(refusals, g.provider.Failure):
		v.Code = kernel.CodeProviderRefused
		fallthrough
	case slices.Contains(overloads, g.provider.Failure):
		v.Detail = "Its last answer broke off, with " + g.provider.Failure + "."
		return []kernel.Violation{v}
	case status == http.StatusUnauthorized, status == http.StatusPaymentRequired, status == http.StatusForbidden:
		v.Code = kernel.CodeProviderRefused
	case status == http.StatusTooManyRequests, status >= http.StatusInternalServerError:
	case g.provider.API != "" && g.provider.Verdict == gateway.Failed:
		v.Detail = "It wasn't reached: " + g.provider.Detail + "."
		return []kernel.Violation{v}
	default:
		return nil
	}
	v.Detail = fmt.Sprintf("Its last answer had the status %d.", g.provider.Status)
	return []kernel.Violation{v}
}
