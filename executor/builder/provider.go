package builder

import (
	"fmt"
	"net/http"

	"github.com/writbot/writ/executor/gateway"
	"github.com/writbot/writ/kernel"
)

// outage says that the provider of models did nothing for a run that failed, by what the
// gateway saw of it last. It is no failure of the builder's then.
func (g *egressLog) outage() []kernel.Violation {
	g.mu.Lock()
	defer g.mu.Unlock()
	v := kernel.Violation{Code: kernel.CodeProviderUnavailable, Subject: g.provider.Host}
	switch status := g.provider.Status; {
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
