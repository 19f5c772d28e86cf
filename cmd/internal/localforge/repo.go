package localforge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/local"
)

// Wanted is a repository as it is to be.
type Wanted struct {
	Name    string // OWNER/NAME
	From    string // directory whose files are the first commit; "" for none
	Private bool
	Grants  []string // LOGIN=PERMISSION; the first account makes the first commit
}

// MakeRepo makes a repository that isn't there, and grants. It tells of one that it made, and
// of how many files, before it grants.
func MakeRepo(ctx context.Context, s *local.Store, w Wanted, tell func(r forge.Repository, files int)) error {
	owner, name, ok := strings.Cut(w.Name, "/")
	if !ok {
		return problem.Usage("%q is no repository: give OWNER/NAME.", w.Name)
	}
	may := map[int64]forge.Permission{}
	var first forge.User // who makes the first commit
	for i, g := range w.Grants {
		login, word, _ := strings.Cut(g, "=")
		p, err := forge.ParsePermission(word)
		if err != nil {
			return problem.Usage("--grant %s: %s.", g, err.Error())
		}
		u, err := s.UserByLogin(ctx, login)
		if err != nil {
			return err
		}
		may[u.ID] = p
		if i == 0 {
			first = u
		}
	}
	r, err := Named(ctx, s, w.Name)
	if err == nil && (w.From != "" || w.Private) {
		return &problem.Error{Exit: problem.ExitOther, Text: "The repository " + w.Name + " is there already, and was left as it is.", Remedy: "Only --grant changes one that is there."}
	}
	if err != nil {
		spec := local.RepoSpec{Owner: owner, Name: name, Private: w.Private, Author: first}
		if w.From != "" && len(w.Grants) == 0 {
			return problem.Usage("--from needs a --grant: its first account makes the first commit.")
		}
		if w.From != "" {
			if spec.Files, err = filesBelow(w.From); err != nil {
				return err
			}
		}
		if r, err = s.CreateRepo(ctx, spec); err != nil {
			return err
		}
		tell(r, len(spec.Files))
	}
	for id, p := range may {
		if err := s.Grant(ctx, r.ID, id, p); err != nil {
			return err
		}
	}
	return nil
}

// Limits of a first commit. What is larger comes by git push.
const (
	maxFirstFiles = 10_000
	maxFirstBytes = 64 << 20 // together
)

// filesBelow reads the regular files of a directory, .git left out.
func filesBelow(dir string) (map[string][]byte, error) {
	files, left := map[string][]byte{}, int64(maxFirstBytes)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == ".git":
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		data, err := installation.ReadLimited(path, left)
		if left -= int64(len(data)); err != nil || len(files) >= maxFirstFiles {
			return errors.Join(err, errors.New("it is too much for a first commit; make the repository empty and push"))
		}
		name, err := filepath.Rel(dir, path)
		files[filepath.ToSlash(name)] = data
		return err
	})
	if err != nil {
		return nil, &problem.Error{Exit: problem.ExitOther, Text: fmt.Sprintf("%s can't be taken over: %s.", dir, err.Error())}
	}
	return files, nil
}
