package localforge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/local"
)

// Token makes a token of an account, and writes it to a new file where one is named.
func (d Dir) Token(ctx context.Context, login, file string) (who forge.User, token string, err error) {
	err = d.With(ctx, local.Options{}, func(s *local.Store) (err error) {
		if who, err = s.UserByLogin(ctx, login); err != nil {
			return err
		}
		if file != "" && exists(file) {
			return isThere(file)
		}
		if token, err = s.NewToken(ctx, who.ID); err != nil || file == "" {
			return err
		}
		return writeSecret(file, token)
	})
	return who, token, err
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func isThere(path string) error {
	return &problem.Error{Exit: problem.ExitOther, Text: path + " is there already and was left as it is.", Remedy: "Name another file, or remove it first."}
}

// writeSecret writes a secret that nobody else can read, to a new file.
func writeSecret(path, secret string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return isThere(path)
	}
	if err != nil {
		return &problem.Error{Exit: problem.ExitOther, Text: fmt.Sprintf("%s can't be written: %s.", path, problem.Cause(err))}
	}
	_, err = f.WriteString(secret + "\n")
	return errors.Join(err, f.Sync(), f.Close())
}
