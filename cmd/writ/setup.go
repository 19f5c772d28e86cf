package main

import (
	"bufio"
	"context"
	"errors"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/writbot/writ/cmd/internal/setup"
)

func (a *app) setupCommand() *cobra.Command {
	cmd := group("setup", "Make what writ needs at a forge: credentials, configuration, checks")
	cmd.AddCommand(a.setupGitHub(), a.setupGitLab())
	return cmd
}

// badSetup explains an error of set-up.
func badSetup(err error) error {
	var e *setup.Error
	if !errors.As(err, &e) {
		if errors.Is(err, context.Canceled) {
			return &problem{exit: exitOther, text: "Interrupted. What was made is kept.", remedy: "Call it again when you like: it goes on where it stood."}
		}
		return err
	}
	p := &problem{exit: exitOther, text: e.Text, remedy: e.Remedy}
	if e.Usage {
		p.exit = exitUsage
	}
	return p
}

// ask asks a person at a terminal; without one, or without a word, the answer is
// no.
func (a *app) ask(ctx context.Context, question string) bool {
	if !a.atTerminal() {
		return false
	}
	a.print("%s [y/N] ", question)
	said := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(a.stdin).ReadString('\n') // an end is a no
		said <- line
	}()
	select {
	case line := <-said:
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return true
		}
	case <-ctx.Done():
	}
	return false
}

// shellSafe is what a shell reads as it stands.
var shellSafe = regexp.MustCompile(`^[A-Za-z0-9_./:@%+=,-]+$`)

// shellWord writes a word as a shell reads it, for commands that a person copies.
func shellWord(s string) string {
	if shellSafe.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func (a *app) atTerminal() bool {
	f, ok := a.stdin.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
