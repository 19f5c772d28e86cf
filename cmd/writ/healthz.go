package main

import (
	"context"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/doctor"
	"github.com/writbot/writ/cmd/internal/problem"
)

// healthzTime bounds the question and its answer. A server that takes longer to
// say that it lives is stuck.
const healthzTime = 5 * time.Second

func (a *app) healthzCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "healthz --config FILE",
		Short: "Ask the server on this machine whether it answers, for a container's health check",
		Long: `Healthz asks /healthz at the configuration's server.probes, or where
that is empty at server.listen. Exit status 0: the
server answers. It says nothing of forges and sandboxes; /readyz does.`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration of this machine")
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		cfg, err := a.Load(file)
		if err != nil {
			return err
		}
		return healthz(ctx, cfg.Server)
	})
	return cmd
}

// healthz asks the server that this configuration describes.
func healthz(ctx context.Context, c config.Server) error {
	address := doctor.Nearest(c.ProbesAt())
	bad := func(why string) error {
		return &problem.Error{Exit: problem.ExitOther, Text: "The server at " + address + " doesn't answer: " + why + ".",
			Remedy: "See its log. Is the configuration that of the running server?"}
	}
	ctx, cancel := context.WithTimeout(ctx, healthzTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/healthz", nil)
	if err != nil {
		return bad(err.Error())
	}
	// Past any proxy: it is this machine.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	got, err := client.Do(r)
	if err != nil {
		return bad(err.Error())
	}
	defer got.Body.Close()
	if got.StatusCode != http.StatusOK {
		return bad("it says " + got.Status)
	}
	return nil
}
