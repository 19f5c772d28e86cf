package e2e

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel/kerneltest"
)

// modelRepo is a repository in memory.
type modelRepo struct {
	b      *bubble
	reader *git.Repo // makes git.Refs of what the model answers

	mu     sync.Mutex
	server *kerneltest.Server
	beats  map[string]*beat // by state ref
	pushes int
}

// beat is what the pushes of a state ref showed.
type beat struct {
	state   string
	at      time.Time
	builds  bool          // its builder was started before
	longest time.Duration // from one push of a run whose builder was started to the next
	states  []string
}

func newModelRepo(b *bubble) *modelRepo {
	r := &modelRepo{b: b, server: kerneltest.NewServer(), beats: map[string]*beat{}}
	main := gittest.RefOID(b.gitDir, "refs/heads/main")
	b.must(r.take(main))
	r.server.Force("refs/heads/main", main)
	r.server.Moved = r.moved
	var err error
	r.reader, err = git.Open(b.t.Context(), git.Endpoint{URL: "http://127.0.0.1:1/repo.git"}, git.Options{HTTPClient: &http.Client{Transport: r}})
	b.must(err)
	return r
}

// take takes the objects of a commit, whose tree has no trees in it, from the
// forge's repository.
func (r *modelRepo) take(commit string) error {
	blobs, err := gittest.TryGit(r.b.gitDir, "", "ls-tree", "--object-only", commit)
	if err != nil {
		return err
	}
	for _, id := range append([]string{commit, commit + "^{tree}"}, strings.Fields(blobs)...) {
		// ID TYPE SIZE, a new line, the bytes, a new line
		out, err := gittest.TryGit(r.b.gitDir, id+"\n", "cat-file", "--batch")
		if err != nil {
			return err
		}
		about, data, _ := strings.Cut(out, "\n")
		r.server.Put(kerneltest.Object{Kind: strings.Fields(about)[1], Data: []byte(data)})
	}
	return nil
}

// moved keeps what the pushes of leases show. The lock is held.
func (r *modelRepo) moved(_ string, moves []kerneltest.Move) {
	for _, m := range moves {
		if !strings.HasPrefix(m.Ref, supervisor.DefaultRefPrefix) {
			continue
		}
		h, _ := r.server.At(m.Ref)
		was := r.beats[m.Ref]
		if was == nil {
			was = &beat{}
			r.beats[m.Ref] = was
		}
		if was.state == "working" && was.builds {
			was.longest = max(was.longest, time.Since(was.at))
		}
		number, _ := strconv.ParseInt(strings.TrimPrefix(m.Ref, supervisor.DefaultRefPrefix), 10, 64) // written by us
		was.builds = r.b.started(number) > 0
		was.state, was.at, was.states = h.State, time.Now(), append(was.states, h.State)
	}
}

// RoundTrip answers protocol version 2's ls-refs.
func (r *modelRepo) RoundTrip(req *http.Request) (*http.Response, error) {
	asked, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	var prefixes []string
	for line := range strings.Lines(string(asked)) {
		if _, p, found := strings.Cut(line, "ref-prefix "); found {
			prefixes = append(prefixes, strings.TrimSpace(p))
		}
	}
	var out bytes.Buffer
	pkt := func(line string) { fmt.Fprintf(&out, "%04x%s", len(line)+4, line) }
	r.mu.Lock()
	refs := r.server.Refs()
	r.mu.Unlock()
	pkt(refs[r.server.Head] + " HEAD symref-target:" + r.server.Head + "\n")
	names := make([]string, 0, len(refs))
	for name := range refs {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		pkt(refs[name] + " " + name + "\n")
	}
	out.WriteString("0000")
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/x-git-upload-pack-result"}},
		Body: io.NopCloser(&out), Request: req,
	}, nil
}

func (r *modelRepo) Refs(ctx context.Context, names ...string) (git.Refs, error) {
	return r.reader.Refs(ctx, names...)
}

var errNoObject = errors.New("no such object")

func (r *modelRepo) object(id, kind string) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o, ok := r.server.Object(id)
	if !ok || o.Kind != kind {
		return nil, fmt.Errorf("%w: %s %s", errNoObject, kind, id)
	}
	return o.Data, nil
}

func (r *modelRepo) Commit(_ context.Context, oid git.OID) (git.Commit, error) {
	raw, err := r.object(string(oid), "commit")
	if err != nil {
		return git.Commit{}, err
	}
	return git.ParseCommit(raw)
}

func (r *modelRepo) Commits(ctx context.Context, oids []git.OID, f func(git.Commit)) error {
	for _, oid := range oids {
		if c, err := r.Commit(ctx, oid); err == nil {
			f(c)
		}
	}
	return nil
}

// Log implements supervisor.Repo: here the base never moves.
func (r *modelRepo) Log(ctx context.Context, from, not []git.OID, _ int) (out []git.Commit, rest []git.OID, err error) {
	for _, oid := range from {
		if slices.Contains(not, oid) {
			continue
		}
		c, err := r.Commit(ctx, oid)
		if err != nil {
			return nil, nil, err
		}
		out, rest = append(out, c), append(rest, c.Parents...)
	}
	return out, rest, nil
}

func (r *modelRepo) Tree(ctx context.Context, oid git.OID) (git.Tree, error) {
	if c, err := r.Commit(ctx, oid); err == nil {
		oid = c.Tree
	}
	t := git.Tree{OID: oid}
	if err := r.walk(string(oid), "", &t); err != nil {
		return git.Tree{}, err
	}
	slices.SortFunc(t.Entries, func(a, b git.Entry) int { return strings.Compare(a.Path, b.Path) })
	return t, nil
}

func (r *modelRepo) walk(oid, prefix string, t *git.Tree) error {
	data, err := r.object(oid, "tree")
	for err == nil && len(data) > 0 {
		space, nul := bytes.IndexByte(data, ' '), bytes.IndexByte(data, 0)
		mode, _ := strconv.ParseUint(string(data[:space]), 8, 32) // written by git
		name, id := prefix+string(data[space+1:nul]), hex.EncodeToString(data[nul+1:nul+21])
		data = data[nul+21:]
		if git.Mode(mode) == git.ModeTree {
			err = r.walk(id, name+"/", t)
			continue
		}
		t.Entries = append(t.Entries, git.Entry{Path: name, Mode: git.Mode(mode), OID: git.OID(id)})
	}
	return err
}

func (r *modelRepo) Blobs(_ context.Context, oids []git.OID, f func(git.OID, []byte) error) error {
	for _, oid := range oids {
		data, err := r.object(string(oid), "blob")
		if err == nil {
			err = f(oid, data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *modelRepo) CompareAndSwap(ctx context.Context, cmds []git.Command, pack git.Pack) git.Outcome {
	if r.b.password != nil {
		if _, err := r.b.password(ctx); err != nil {
			return git.Outcome{Status: git.Unable, Err: err}
		}
	}
	objects, err := kerneltest.ReadPack(pack.Data)
	if err != nil {
		return git.Outcome{Status: git.Unable, Err: err}
	}
	plain := func(o git.OID) string {
		if o.IsZero() {
			return ""
		}
		return string(o)
	}
	moves := make([]kerneltest.Move, len(cmds))
	for i, c := range cmds {
		moves[i] = kerneltest.Move{Ref: c.Ref, Old: plain(c.Old), New: plain(c.New)}
	}
	r.mu.Lock()
	answer := r.server.Swap("writ", moves, objects, kerneltest.NoFault)
	r.pushes++
	r.mu.Unlock()
	if answer == kerneltest.Won {
		for _, m := range moves {
			if err := r.mirror(m, pack.Data); err != nil {
				r.b.t.Error(err)
			}
		}
	}
	return git.Outcome{Status: git.Status(answer)}
}

// mirror gives a branch to the forge.
func (r *modelRepo) mirror(m kerneltest.Move, pack []byte) error {
	if !strings.HasPrefix(m.Ref, "refs/heads/") {
		return nil
	}
	for _, args := range [][]string{{"unpack-objects", "-q"}, {"update-ref", m.Ref, m.New}} {
		if out, err := gittest.TryGit(r.b.gitDir, string(pack), args...); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	}
	r.b.tell(m.Ref, m.Old, m.New)
	return nil
}

func (r *modelRepo) Reassert(ctx context.Context, cmds []git.Command, pack git.Pack) git.Outcome {
	return r.CompareAndSwap(ctx, cmds, pack)
}
