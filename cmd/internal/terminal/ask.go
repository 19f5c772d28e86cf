package terminal

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Asker asks a person.
type Asker struct {
	In io.Reader
	// Print shows text to the person, cleaned of secrets.
	Print func(format string, args ...any)
}

// AtTerminal says whether a person can be asked.
func (a Asker) AtTerminal() bool {
	f, ok := a.In.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// YesNo asks a person at a terminal; without one, or without a word, the answer is
// no.
func (a Asker) YesNo(ctx context.Context, question string) bool {
	if !a.AtTerminal() {
		return false
	}
	a.Print("%s [y/N] ", question)
	said := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(a.In).ReadString('\n') // an end is a no
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

// maxLine bounds what is read from a terminal or a pipe, in bytes.
const maxLine = 8 << 10

// Line reads one line, byte by byte: what follows is for whoever asks next.
func (a Asker) Line(ctx context.Context) (string, error) {
	type answer struct {
		text string
		err  error
	}
	said := make(chan answer, 1)
	go func() {
		var text []byte
		one := make([]byte, 1)
		for len(text) < maxLine {
			n, err := a.In.Read(one)
			if n == 1 && one[0] != '\n' {
				text = append(text, one[0])
				continue
			}
			if n == 1 || errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				said <- answer{"", err}
				return
			}
		}
		said <- answer{strings.TrimSpace(string(text)), nil}
	}()
	select {
	case got := <-said:
		return got.text, got.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// Secret reads a line that the terminal doesn't show: from before the question
// until it has ended, however that comes about.
func (a Asker) Secret(ctx context.Context, question string) (_ string, err error) {
	f, ok := a.In.(*os.File) // as AtTerminal has seen
	if !ok {
		return "", nil
	}
	fd := int(f.Fd())
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return "", err
	}
	hidden := *before
	hidden.Lflag &^= unix.ECHO
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, &hidden); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, unix.IoctlSetTermios(fd, unix.TCSETS, before)) }()
	a.Print("%s", question)
	defer a.Print("\n") // the one that was typed isn't shown either
	return a.Line(ctx)
}
