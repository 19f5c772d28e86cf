package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

func (a *app) contractCommand() *cobra.Command {
	cmd := group("contract", "Write, check and name a repository's contract")
	cmd.AddCommand(a.contractInit(), a.contractLint(), a.contractHash(), a.contractTry())
	return cmd
}

// readContract reads the contract that an argument names, itself or by the
// directory that it lies in, or the one of the current directory.
func readContract(args []string) (string, []byte, error) {
	path := contract.Path
	if len(args) == 1 {
		path = args[0]
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, contract.Path) // as `writ contract init` takes it
	}
	const maxRead = 1 << 20 // more than a contract may have, so that lint can say so
	data, err := installation.ReadLimited(path, maxRead)
	if err != nil {
		return path, nil, &problem.Error{Exit: problem.ExitOther, Text: fmt.Sprintf("%s can't be read: %s.", path, problem.Cause(err)), Remedy: "`writ contract init` writes one."}
	}
	return path, data, nil
}

func (a *app) contractLint() *cobra.Command {
	return &cobra.Command{
		Use:   "lint [FILE | DIR]",
		Short: "Say what is wrong with a contract, and what to know of it",
		Args:  cobra.MaximumNArgs(1),
		RunE: a.do(func(_ context.Context, args []string) error {
			path, data, err := readContract(args)
			if err != nil {
				return err
			}
			bad := 0
			for _, f := range contract.Lint(data) {
				word := string(kernel.CodeGovernanceInvalid)
				if f.Warning {
					word = "warning"
				} else {
					bad++
				}
				at := path
				if f.Line > 0 {
					at += fmt.Sprintf(":%d", f.Line)
				}
				if f.Path != "" {
					at += ": " + f.Path
				}
				a.print("%s: %s: %s\n", at, word, f.Detail)
			}
			if bad > 0 {
				return problem.Quiet(problem.ExitOther)
			}
			a.print("%s is valid\n", path)
			return nil
		}),
	}
}

func (a *app) contractHash() *cobra.Command {
	return &cobra.Command{
		Use:   "hash [FILE | DIR]",
		Short: "Print the governance hash: SHA-256 of the file's bytes",
		Args:  cobra.MaximumNArgs(1),
		RunE: a.do(func(_ context.Context, args []string) error {
			_, data, err := readContract(args)
			if err != nil {
				return err
			}
			a.print("%s\n", canon.Sum(data))
			return nil
		}),
	}
}
