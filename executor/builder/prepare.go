package builder

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// # Preparation
//
// What the contract's `prepare` asks for runs in two stages. The steps with keys see the
// files that any of them names and nothing else of the base, so that what they leave is
// the same for each base with these files, and what has a network sees nothing that it
// could run. The steps without keys see the whole base and what the first stage left, and
// have no network. Each stage is a layer: the directories that it made in the home
// directory, and in the workspace those that the base's .gitignore files match. No run of
// a change ever writes to a layer, and none is made from another base's.
//
// A change that touches key files is prepared for by itself: both stages run again from
// nothing, on the base with these files and no other byte of the change, and what they
// leave is thrown away with the run.

// rebuildAge is how long what was prepared stays good: the steps may see more of the
// world than their keys.
const rebuildAge = 7 * 24 * time.Hour

// kindPrepare begins the names of these layers.
const kindPrepare = "prepare"

// prepareError is a preparation that failed, with what is to be said of it.
type prepareError struct {
	violation kernel.Violation
	tail      string // of the failed step's output
}

func (e *prepareError) Error() string { return e.violation.Subject + ": " + e.violation.Detail }

func unprepared(v kernel.Violation, tail string) error {
	return failed(v.Code, "the preparation failed", &prepareError{v, tail})
}

// preparation is that of one run.
type preparation struct {
	l      *Local
	world  string
	task   string
	base   *feed // of the base, never of a change
	onLine func(string)
	change *change // of key files; nil: it touches none
	kept   bool    // as a layer, for further runs

	stages []*stage
	record kernel.Prepared

	mu     sync.Mutex
	pinned []func()
}

// stage is the steps of one kind.
type stage struct {
	steps []kernel.Step
	whole bool // they see the whole base
	key   canon.Digest
	below *stage // what it goes on from; nil: from nothing

	dir  string // of the layer, or of what is thrown away; once it is there
	made layerInfo
}

// newPreparation is nil where the contract has none.
func (l *Local) newPreparation(world string, task int64, steps []kernel.Step, base *feed, onLine func(string)) *preparation {
	if len(steps) == 0 {
		return nil
	}
	p := &preparation{l: l, world: world, task: taskName(world, task), base: base, onLine: onLine, record: kernel.Prepared{Steps: []kernel.StepResult{}}}
	at := slices.IndexFunc(steps, func(s kernel.Step) bool { return len(s.Keys) == 0 })
	if at < 0 {
		at = len(steps)
	}
	for _, list := range [][]kernel.Step{steps[:at], steps[at:]} {
		if len(list) > 0 {
			s := &stage{steps: list, whole: len(list[0].Keys) == 0}
			if len(p.stages) > 0 {
				s.below = p.stages[0]
			}
			p.stages = append(p.stages, s)
		}
	}
	return p
}

// keyPatterns are the files that the steps name.
func (p *preparation) keyPatterns() scope.Globs {
	var all []string
	for _, s := range p.stages {
		for _, step := range s.steps {
			all = append(all, step.Keys...)
		}
	}
	globs, _ := scope.ParseGlobs(all) // the contract was refused for faulty ones
	return globs
}

// keyFiles are the entries of a tree that the steps name.
func (p *preparation) keyFiles(list []scope.Entry) []scope.Entry {
	globs := p.keyPatterns()
	var out []scope.Entry
	for _, e := range list {
		if e.Mode != scope.ModeGitlink && globs.Match(e.Path) {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b scope.Entry) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// takeChange looks which key files a tree has that aren't the base's.
func (p *preparation) takeChange(ctx context.Context, c *change, blobs func(context.Context, []string, func(string, []byte) error) error) error {
	before, after := map[string]scope.Entry{}, p.keyFiles(c.after)
	base := entries(p.base.base.Files)
	for _, e := range p.keyFiles(base) {
		before[e.Path] = e
	}
	var list []kernel.Change
	var ids []string
	contents := map[string][]byte{}
	for _, e := range after {
		b, had := before[e.Path]
		if delete(before, e.Path); had && b == e {
			continue
		}
		ch := kernel.Change{Path: e.Path, Op: kernel.OpAdd, AfterID: e.OID, AfterMode: e.Mode}
		if had {
			ch.Op, ch.BeforeID, ch.BeforeMode = kernel.OpModify, b.OID, b.Mode
		}
		if contents[e.OID] = c.bytes[e.OID]; contents[e.OID] == nil {
			ids = append(ids, e.OID)
		}
		list = append(list, ch)
	}
	for _, b := range before {
		list = append(list, kernel.Change{Path: b.Path, Op: kernel.OpDelete, BeforeID: b.OID, BeforeMode: b.Mode})
	}
	if len(list) == 0 {
		return nil
	}
	slices.SortFunc(list, func(a, b kernel.Change) int { return strings.Compare(a.Path, b.Path) })
	var err error
	if len(ids) > 0 {
		err = blobs(ctx, ids, func(id string, data []byte) error { contents[id] = data; return nil })
	}
	if err == nil {
		p.change, err = newChange(base, list, contents)
	}
	if err != nil {
		return failed(kernel.CodeEnvRepository, "the change's key files can't be had", err)
	}
	return nil
}

// ready makes what isn't there, or finds it.
func (p *preparation) ready(ctx context.Context) error {
	p.base.hold()
	defer p.base.release()
	if p.record.OfChange = p.change != nil; p.change != nil {
		if err := p.refused(); err != nil {
			return err
		}
	}
	if err := p.name(); err != nil {
		return failed(kernel.CodeEnvBase, "the preparation can't be named", err)
	}
	p.l.stock.layers.usable() // looks once, and says what there is
	dir := p.l.stock.layers.dir
	p.kept = p.change == nil && dir != "" && p.l.stock.layers.make() == nil
	last := p.stages[len(p.stages)-1]
	p.record.Key = last.key
	if _, err := p.get(ctx, last, p.l.stock.owner()); err != nil {
		return err
	}
	p.record.Layer = last.made.Content
	return nil
}

// end lets go of the layers.
func (p *preparation) end() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, release := range p.pinned {
		release()
	}
	p.pinned = nil
}

func (p *preparation) pin(release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pinned = append(p.pinned, release)
}

// result is what is recorded of it; nil for none.
func (p *preparation) result() *kernel.Prepared {
	if p == nil {
		return nil
	}
	return &p.record
}

// get gives the directory of a stage's layer for a user of the host.
func (p *preparation) get(ctx context.Context, s *stage, owner int) (string, error) {
	if !p.kept {
		return p.thrownAway(ctx, s, owner)
	}
	from, info := s.dir, s.made
	dir, _, release, err := p.l.stock.layers.get(ctx, layerKey(kindPrepare, strings.TrimPrefix(string(s.key), "sha256:"), owner), owner, source{
		fill: func(ctx context.Context, dir string) error {
			if from == "" {
				return p.make(ctx, s, dir, owner)
			}
			if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // as any layer
				return err
			}
			return errors.Join(copyTree(ctx, from, dir, p.room(nil)), info.write(filepath.Dir(dir)))
		},
		fresh: func(dir string) bool {
			i, err := readInfo(filepath.Dir(dir))
			return err == nil && p.l.stock.layers.now().Sub(time.UnixMilli(i.Made)) < rebuildAge
		},
		whole: func(ctx context.Context, dir string, _ int) error { return isPrepared(ctx, dir) },
	})
	if err != nil {
		return "", err
	}
	p.pin(release)
	if s.dir == "" {
		if s.made, err = readInfo(filepath.Dir(dir)); err != nil {
			return "", failed(kernel.CodeEnvLayers, "what was prepared can't be read", err)
		}
		s.dir = dir
	}
	return dir, nil
}

// thrownAway makes a stage for this run alone.
func (p *preparation) thrownAway(ctx context.Context, s *stage, owner int) (string, error) {
	if s.dir == "" {
		at, err := p.l.stock.directory()
		if err != nil {
			return "", err
		}
		p.pin(func() { p.l.stock.forget(at) })
		dir := filepath.Join(at, layerTree)
		if err := p.make(ctx, s, dir, owner); err != nil {
			return "", err
		}
		if s.made, err = readInfo(at); err != nil {
			return "", failed(kernel.CodeEnvWorkspace, "what was prepared can't be read", err)
		}
		s.dir = dir
	}
	if err := give(s.dir, owner); err != nil {
		return "", failed(kernel.CodeEnvWorkspace, "what was prepared can't be given to the program's user", err)
	}
	return s.dir, nil
}

// make runs a stage and keeps what it left in dir.
func (p *preparation) make(ctx context.Context, s *stage, dir string, owner int) error {
	below := ""
	if s.below != nil {
		var err error
		if below, err = p.get(ctx, s.below, owner); err != nil {
			return err
		}
	}
	for again := false; ; again = true {
		t, err := p.tree(ctx, s)
		if err != nil {
			return err
		}
		err = p.runIn(ctx, s, t, below)
		if err == nil {
			err = p.collect(ctx, s, t, dir)
		}
		p.l.stock.discard(t)
		if again || !p.l.layersRefused(err) {
			return err
		}
	}
}

// tree lays out what a stage sees.
func (p *preparation) tree(ctx context.Context, s *stage) (*tree, error) {
	if s.whole {
		t, err := p.l.stock.take(ctx, p.base, use{runner: true})
		if err != nil || p.change == nil {
			return t, err
		}
		apply, dir := p.change.apply, t.workspace()
		if t.layered {
			apply, dir = p.change.applyAbove, sandbox.Upper(dir)
		}
		if err := apply(dir); err != nil {
			p.l.stock.discard(t)
			return nil, failed(kernel.CodeEnvWorkspace, "the change can't be laid out", err)
		}
		return t, nil
	}
	dir, err := p.l.stock.directory()
	if err != nil {
		return nil, err
	}
	t := &tree{dir: dir, cancel: func() {}, done: make(chan struct{}), feed: p.base}
	close(t.done)
	list := entries(p.base.base.Files)
	if p.change != nil {
		list = p.change.after
	}
	err = scope.Materialise(ctx, t.workspace(), p.keyFiles(list), func(id string) ([]byte, error) {
		if p.change != nil && p.change.bytes[id] != nil {
			return p.change.bytes[id], nil
		}
		data, err := p.base.get(ctx, id)
		if err != nil {
			err = &readError{err}
		}
		return data, err
	})
	if err != nil {
		p.l.stock.discard(t)
		return nil, layoutFault(err)
	}
	return t, nil
}

// written is the directory of the workspace that what a program writes lies in.
func (t *tree) written() string {
	if t.layered {
		return sandbox.Upper(t.workspace())
	}
	return t.workspace()
}

func (t *tree) home() string { return filepath.Join(t.dir, "home") }

// runIn runs the steps of a stage one after another, with the home directory and the
// workspace in common. The first that fails ends it.
func (p *preparation) runIn(ctx context.Context, s *stage, t *tree, below string) error {
	//nolint:gosec // a program's user passes through; the directory above is closed
	if err := errors.Join(os.Mkdir(t.home(), 0o755), os.MkdirAll(t.written(), 0o755)); err != nil {
		return failed(kernel.CodeEnvWorkspace, "there is no directory for the preparation", err)
	}
	if below != "" {
		err := copyTree(ctx, filepath.Join(below, homePart), t.home(), p.room(nil))
		for _, rel := range s.below.made.Work {
			if err == nil {
				err = makeWithin(t.written(), rel)
			}
			if err == nil {
				err = copyTree(ctx, filepath.Join(below, workPart, rel), filepath.Join(t.written(), rel), p.room(nil))
			}
		}
		if err != nil {
			return failed(kernel.CodeEnvWorkspace, "what was prepared before can't be laid out", err)
		}
	}
	for _, step := range s.steps {
		if err := p.step(ctx, step, t); err != nil {
			return err
		}
	}
	return nil
}

// step runs one.
func (p *preparation) step(ctx context.Context, step kernel.Step, t *tree) error {
	w := p.l.newWatch(p.onLine)
	egress := p.l.newEgressLog(p.task, kernel.MaxConnections-p.told())
	check := kernel.Check{Name: step.Name, Argv: step.Argv, TimeoutMs: step.TimeoutMs, Hosts: step.Hosts}
	cfg := p.l.cfg.Checks
	spec := sandbox.Spec{
		Argv: step.Argv, Env: environment(withProxy(cfg.Env, len(step.Hosts) > 0), p.held(step)),
		Workspace: t.workspace(), Layers: p.l.stock.shown(t), ReadOnly: cfg.ReadOnly, Loopback: cfg.Loopback,
		Dirs: func(context.Context, int) ([]sandbox.Dir, error) {
			return []sandbox.Dir{{Target: sandbox.HomeDir, Source: t.home()}}, nil
		},
		Stdout: w.stdout, Stderr: w.stdout, Limits: p.l.cfg.Limits,
	}
	end, err := p.l.inside(ctx, p.world, check, spec, w, egress)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil {
		err = end.err
	}
	if se, ok := errors.AsType[*sandbox.Error](err); ok && se.Code == sandbox.CodeLayers {
		return err
	}
	if p.l.doubt(err); err != nil && !isProgramFault(err) {
		return unprepared(faultOf(step.Name, err), "")
	}
	if err != nil {
		end = notStarted(err)
	}
	r := kernel.StepResult{Name: step.Name, Exit: end.exit, Output: p.l.evidence(w.stdout), Egress: egress.result()}
	p.record.Steps = append(p.record.Steps, r)
	if end.succeeded() {
		return nil
	}
	return unprepared(p.fault(step, end, r.Egress), step.Name+":\n"+r.Output.Tail)
}

// told is how many connections were told one by one.
func (p *preparation) told() (n int) {
	for _, s := range p.record.Steps {
		if s.Egress != nil {
			n += len(s.Egress.Connections)
		}
	}
	return n
}

// fault says whose failure it is: of whoever is outside, of the change, or of the contract
// and its base.
func (p *preparation) fault(step kernel.Step, end ending, e *kernel.Egress) kernel.Violation {
	v := kernel.Violation{Code: kernel.CodePrepareFailed, Subject: step.Name, Detail: "The step " + end.sentence()}
	if p.change != nil {
		v.Code = kernel.CodePrepareChange
	}
	if end.exit.Cause == kernel.CauseStopped {
		v.Code = kernel.CodeTaskInterrupted
	}
	if e == nil {
		return v
	}
	for _, c := range e.Connections {
		if c.Verdict == "failed" {
			if v.Code = kernel.CodePrepareUnreachable; p.change != nil {
				v.Code = kernel.CodePrepareFailed // a change that names hosts of its own is not tried for ever
			}
			v.Detail += fmt.Sprintf(" %s:%d did not answer: %s %s", c.Host, c.Port, c.Code, c.Detail)
			return v
		}
		if c.Verdict == "cut" {
			v.Detail += fmt.Sprintf(" %s:%d was cut: %s.", c.Host, c.Port, c.Code)
		}
	}
	for _, d := range e.Denied {
		v.Detail += fmt.Sprintf(" Denied: %s:%d (%s).", d.Host, d.Port, d.Code)
	}
	return v
}

// held are the variables of a step with a network. They keep what a manifest names from
// being fetched as a program and run at once; the step after it, which has no network,
// may do so.
func (p *preparation) held(step kernel.Step) map[string]string {
	if len(step.Hosts) == 0 {
		return nil
	}
	out := map[string]string{"GOTOOLCHAIN": "local", "npm_config_ignore_scripts": "true"}
	if p.change != nil {
		out["npm_config_git"] = "/bin/false"      // a dependency in git may name a script of its own
		out["COREPACK_ENABLE_PROJECT_SPEC"] = "0" // else packageManager of a manifest names the npm that is fetched and run
	}
	return out
}

// room bounds what is copied: none of it may take the last of the disk, nor more than all
// layers may have.
func (p *preparation) room(sum *int64) func(size int64) error {
	if sum == nil {
		sum = new(int64)
	}
	return func(size int64) error {
		if *sum += size; *sum > p.l.stock.layers.most() {
			return errTooMuch
		}
		if !p.l.stock.disk(size) && !p.l.stock.room(size) {
			return failed(kernel.CodeEnvDisk, "what was prepared can't be kept", errDisk)
		}
		return nil
	}
}

var errTooMuch = errors.New("it is more than layers.size lets be kept")

// The directories of a layer: what is in the home directory, and in the workspace.
const (
	homePart = "home"
	workPart = "work"
)

// collect keeps what a stage left.
func (p *preparation) collect(ctx context.Context, s *stage, t *tree, dir string) error {
	info := layerInfo{World: p.world, Made: p.l.stock.layers.now().UnixMilli(), Home: []string{}, Work: []string{}}
	for _, step := range s.steps {
		info.Steps = append(info.Steps, step.Name)
	}
	var sum int64
	err := errors.Join(os.Mkdir(dir, 0o755), os.Mkdir(filepath.Join(dir, homePart), 0o755), os.Mkdir(filepath.Join(dir, workPart), 0o755)) //nolint:gosec // as any layer
	keep := func(from, part, rel string) {
		at := filepath.Join(dir, part, rel)
		if err == nil {
			err = os.MkdirAll(at, 0o755) //nolint:gosec // as any layer
		}
		if err == nil {
			err = copyTree(ctx, filepath.Join(from, rel), at, p.room(&sum))
		}
	}
	list, rerr := os.ReadDir(t.home())
	rerr = unreadable(rerr, sandbox.HomeDir)
	for _, e := range list {
		if e.IsDir() && !p.mounted(path.Join(sandbox.HomeDir, e.Name())) {
			info.Home = append(info.Home, e.Name())
			keep(t.home(), homePart, e.Name())
		}
	}
	work, werr := p.leftDirs(ctx, t.written())
	for _, rel := range work {
		info.Work = append(info.Work, rel)
		keep(t.written(), workPart, rel)
	}
	if err = errors.Join(err, rerr, werr); err == nil {
		if info.Content, err = contentOf(ctx, dir); err == nil {
			err = info.write(filepath.Dir(dir))
		}
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errTooMuch), errors.Is(err, errUnfit):
		code := kernel.CodePrepareFailed
		if p.change != nil {
			code = kernel.CodePrepareChange
		}
		return unprepared(kernel.Violation{Code: code, Subject: s.steps[len(s.steps)-1].Name, Detail: "What the steps left can't be kept: " + err.Error() + "."}, "")
	case isCoded(err):
		return err
	}
	return failed(kernel.CodeEnvLayers, "what was prepared can't be kept", err)
}

func isCoded(err error) bool {
	_, ok := errors.AsType[*executor.Error](err)
	return ok
}

// mounted reports whether the operator mounts something at a place, above or below it.
func (p *preparation) mounted(target string) bool {
	return overlaps(p.l.cfg.Checks.ReadOnly, target)
}

func overlaps(mounts []sandbox.Mount, target string) bool {
	return slices.ContainsFunc(mounts, func(m sandbox.Mount) bool {
		at := m.Target
		if at == "" {
			at = filepath.Clean(m.Source)
		}
		return at == target || strings.HasPrefix(at, target+"/") || strings.HasPrefix(target, at+"/")
	})
}

// leftDirs are the topmost directories of a workspace that the base doesn't have and that
// its .gitignore files match. Nothing else of a workspace is kept: what the base has is the
// base's, and the rest would be the change's.
func (p *preparation) leftDirs(ctx context.Context, dir string) (out []string, err error) {
	ignore, err := ignoreFiles(ctx, p.base.base, entries(p.base.base.Files))
	if err != nil {
		return nil, failed(kernel.CodeEnvRepository, "the base can't be read", err)
	}
	files, dirs := map[string]bool{}, map[string]bool{}
	for _, f := range p.base.base.Files {
		files[f.Path] = true
		for at := parent(f.Path); at != "" && !dirs[at]; at = parent(at) {
			dirs[at] = true
		}
	}
	ignored := scope.IgnoredDirs(ignore)
	var walk func(rel string) error
	walk = func(rel string) error {
		list, err := os.ReadDir(filepath.Join(dir, rel))
		if err != nil {
			return unreadable(err, path.Join(sandbox.WorkspaceDir, rel))
		}
		for _, e := range list {
			name := path.Join(rel, e.Name())
			switch {
			case !e.IsDir() || name == ".git" || files[name]:
			case dirs[name]:
				err = walk(name)
			case ignored(name):
				out = append(out, name)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	return out, walk("")
}

// dirs gives a program what was prepared: in overlays where there are any, else in copies.
// taken reports whether a path of the workspace has to be what it is without them.
func (p *preparation) dirs(t *tree, mounts []sandbox.Mount, taken func(string) bool) func(context.Context, int) ([]sandbox.Dir, error) {
	if p == nil {
		return nil
	}
	return func(ctx context.Context, owner int) ([]sandbox.Dir, error) {
		ctx, cancel := context.WithTimeout(ctx, layLimit)
		defer cancel()
		last := p.stages[len(p.stages)-1]
		layer, err := p.get(ctx, last, owner)
		if err != nil {
			return nil, err
		}
		var out []sandbox.Dir
		over, overlaid := filepath.Join(t.dir, "over"), p.l.stock.layers.usable()
		if err := os.Mkdir(over, 0o711); err != nil { //nolint:gosec // a program's user passes through
			return nil, failed(kernel.CodeEnvWorkspace, "there is no directory for what was prepared", err)
		}
		show := func(target, lower string) error {
			d := sandbox.Dir{Target: target, Source: filepath.Join(over, fmt.Sprint(len(out))), Lower: lower}
			if err := os.Mkdir(d.Source, 0o755); err != nil { //nolint:gosec // as above
				return err
			}
			if !overlaid {
				d.Lower = ""
				if err := copyTree(ctx, lower, d.Source, p.room(nil)); err != nil {
					return err
				}
			}
			out = append(out, d)
			return nil
		}
		for _, name := range last.made.Home {
			target := path.Join(sandbox.HomeDir, name)
			if err == nil && !overlaps(mounts, target) {
				err = show(target, filepath.Join(layer, homePart, name))
			}
		}
		for _, rel := range last.made.Work {
			if err == nil && !taken(rel) {
				err = makeWithin(t.written(), rel)
			}
			if err == nil && !taken(rel) {
				err = show(path.Join(sandbox.WorkspaceDir, rel), filepath.Join(layer, workPart, rel))
			}
		}
		if err != nil && !isCoded(err) {
			err = failed(kernel.CodeEnvWorkspace, "what was prepared can't be shown", err)
		}
		return out, err
	}
}

// makeWithin makes a directory of a workspace, wherever links in it lead.
func makeWithin(workspace, rel string) error {
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return err
	}
	defer root.Close()
	return makeDirs(root, rel)
}

// unshow takes away the empty directories in which a workspace showed what was prepared.
// Nothing runs in it any more.
func (p *preparation) unshow(t *tree) {
	if p == nil {
		return
	}
	root, err := os.OpenRoot(t.written())
	if err != nil {
		return // the walk says why
	}
	defer root.Close()
	for _, rel := range p.stages[len(p.stages)-1].made.Work {
		if st, err := root.Lstat(rel); err == nil && st.IsDir() {
			_ = root.Remove(rel) // one that isn't empty stays, and is judged
		}
	}
}
