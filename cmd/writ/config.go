package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
)

func (a *app) configCommand() *cobra.Command {
	cmd := group("config", "Check, print and explain this machine's configuration")
	cmd.AddCommand(a.configCheck(), a.configPrint(), a.configReference())
	return cmd
}

func (a *app) configCheck() *cobra.Command {
	return &cobra.Command{
		Use: "check FILE", Short: "Say what is wrong with a configuration, with line and key", Args: cobra.ExactArgs(1),
		Long: `Check reads a configuration as writ serve does, and lists everything that is wrong
with it: line, key, what is wrong and what to write. It asks no forge and opens no
state directory. It also says which secrets the file names and this shell lacks.
Exit status: 0 if the file is fine, 2 if not.`,
		RunE: a.do(func(_ context.Context, args []string) error {
			if err := installation.PathFlag("FILE", args[0]); err != nil {
				return err
			}
			cfg, err := config.Load(args[0])
			if err != nil {
				return err
			}
			a.print("%s is fine\n", args[0])
			a.tellUnset(cfg)
			a.tellUnseen(cfg)
			a.tellWarnings(cfg)
			return nil
		}),
	}
}

// tellUnset says which secrets that a server reads from its environment are not in
// this one. It is no fault of the file: the server may have another.
func (a *app) tellUnset(cfg config.Config) {
	_, err := a.ReadSecrets(cfg)
	_, more := a.Credentials(cfg)
	for _, err := range []error{err, more} {
		if err == nil {
			continue
		}
		a.print("writ serve reads secrets from its environment, which this shell doesn't have so:\n  %s\n", strings.ReplaceAll(problem.Explain(err).Text, "\n", "\n  "))
	}
}

// tellUnseen says what can't be seen of what egress allows: to a host without a credential
// there may be a tunnel.
func (a *app) tellUnseen(cfg config.Config) {
	tunnel := func(e config.Egress) bool { return e.Credential.Secret == "" }
	reach := slices.ContainsFunc(cfg.Checks.Egress, tunnel)
	for _, b := range cfg.Builders {
		reach = reach || slices.ContainsFunc(b.Egress, tunnel)
	}
	if reach {
		a.print("egress: of TLS to a host without a credential the gateway sees the host's name and no more. Whoever is allowed to reach it\n" +
			"  can send it anything, and ask a server that answers for several names for another one of them. docs/egress.md says what is held.\n")
	}
}

// tellWarnings warns of what prices, budgets and tables don't hold as their reader may think.
func (a *app) tellWarnings(cfg config.Config) {
	for _, text := range cfg.Warnings() {
		a.print("warning: %s\n", text)
	}
}

func (a *app) configPrint() *cobra.Command {
	return &cobra.Command{
		Use: "print [FILE]", Short: "Print the configuration in force, defaults filled in", Args: cobra.MaximumNArgs(1),
		RunE: a.do(func(_ context.Context, args []string) error {
			c := config.Default()
			if len(args) == 1 {
				if err := installation.PathFlag("FILE", args[0]); err != nil {
					return err
				}
				var err error
				if c, err = config.Load(args[0]); err != nil {
					return err
				}
			}
			text, err := c.YAML()
			if err != nil {
				return err
			}
			a.print("%s", text)
			return nil
		}),
	}
}

func (a *app) configReference() *cobra.Command {
	return &cobra.Command{
		Use: "reference", Short: "Print every key with its default and meaning, as Markdown", Args: cobra.NoArgs,
		RunE: a.do(func(context.Context, []string) error {
			a.print("%s", config.Reference())
			return nil
		}),
	}
}
