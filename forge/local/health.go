package local

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// healthTime bounds what /readyz asks.
const healthTime = 5 * time.Second

// health is the answer of /healthz and /readyz, in the form that writ serve has.
type health struct {
	Live   bool          `json:"live,omitempty"`
	Ready  bool          `json:"ready"`
	Checks []healthCheck `json:"checks,omitempty"`
}

type healthCheck struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
}

// serveHealth answers /healthz, which asks nothing, and /readyz, which asks for the
// database and the directory of the repositories: 200, or 503 with what fails. Why
// is in the log.
func (s *Store) serveHealth(w http.ResponseWriter, r *http.Request) bool {
	var a health
	switch r.URL.Path {
	case "/healthz":
		a = health{Live: true, Ready: true}
	case "/readyz":
		a = s.ready(r.Context())
	default:
		return false
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !a.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(a) // who asks may be gone
	return true
}

func (s *Store) ready(ctx context.Context) health {
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	a := health{Ready: true}
	for _, check := range []struct {
		name string
		run  func() error
	}{
		{"store", func() error {
			return s.view(ctx, "answer", func(x *session) error {
				var n int64
				return x.tx.QueryRowContext(ctx, `SELECT count(*) FROM repos`).Scan(&n)
			})
		}},
		{"repositories", func() error {
			_, err := os.ReadDir(filepath.Join(s.dir, "repos"))
			return err
		}},
	} {
		err := check.run()
		if err != nil {
			a.Ready = false
			s.log.Warn("the embedded forge is not ready", "check", check.name, "error", err)
		}
		a.Checks = append(a.Checks, healthCheck{check.name, err == nil})
	}
	return a
}
