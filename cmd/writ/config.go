package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/config"
)

func (a *app) configCheck() *cobra.Command {
	return &cobra.Command{
		Use: "check FILE", Short: "Say what is wrong with a configuration, with line and key", Args: cobra.ExactArgs(1),
		RunE: a.do(func(_ context.Context, args []string) error {
			if err := pathFlag("FILE", args[0]); err != nil {
				return err
			}
			if _, err := config.Load(args[0]); err != nil {
				return err
			}
			a.print("%s is fine\n", args[0])
			return nil
		}),
	}
}

func (a *app) configPrint() *cobra.Command {
	return &cobra.Command{
		Use: "print [FILE]", Short: "Print the configuration in force, defaults filled in", Args: cobra.MaximumNArgs(1),
		RunE: a.do(func(_ context.Context, args []string) error {
			c := config.Default()
			if len(args) == 1 {
				if err := pathFlag("FILE", args[0]); err != nil {
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
