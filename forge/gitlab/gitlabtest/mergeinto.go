package gitlabtest

import (
	"fmt"
	"time"

	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/forge/git/smarthttp"
)

// Merge methods of a project, in GitLab's words.
const (
	MergeCommits = "merge"
	FastForward  = "ff"
)

// SetMergeMethod sets how a project's merge requests are merged.
func (s *Server) SetMergeMethod(projectID int64, method string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.data.Projects[projectID].MergeMethod = method
}

// NoMerges switches merge requests of a project off.
func (s *Server) NoMerges(projectID int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.data.Projects[projectID].NoMerges = true
}

// DateIssue sets when an issue says that it was updated last, as an owner may.
func (s *Server) DateIssue(projectID, iid int64, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.data.Projects[projectID].find(anIssue, iid).Updated = at
}

// Rebase puts a request's branch above its target, as the button does: it pushes the
// branch anew.
func (s *Server) Rebase(projectID, user, iid int64) (err error) {
	s.as(user, func(*call) {
		p := s.data.Projects[projectID]
		i := p.find(aMerge, iid)
		old := i.SHA
		var tip string
		if tip, err = gittest.Rebase(s.dir(p), s.ref(p, "refs/heads/"+i.Target), old); err == nil && tip != old {
			s.run(s.dir(p), "", "update-ref", "refs/heads/"+i.Source, tip, old)
			s.moved(p, user, []smarthttp.RefUpdate{{Ref: "refs/heads/" + i.Source, Old: old, New: tip}})
		}
	})
	return err
}

// Revert takes a merged request back on its target, as the button does where no
// other request is wanted: it names the request by what the merge commit was made
// for, and any other commit by its id.
func (s *Server) Revert(projectID, user, iid int64) (oid string, err error) {
	s.as(user, func(*call) {
		p := s.data.Projects[projectID]
		i := p.find(aMerge, iid)
		dir, ref := s.dir(p), "refs/heads/"+i.Target
		merged, says := i.MergeSHA, "This reverts merge request "+i.reference()
		if merged == "" {
			merged = i.SHA
			if i.SquashSHA != "" {
				merged = i.SquashSHA
			}
			says = "This reverts commit " + merged
		}
		tip := s.ref(p, ref)
		subject := s.run(dir, "", "log", "-1", "--format=%s", merged)
		if oid, err = gittest.Revert(dir, tip, merged+"^", merged, fmt.Sprintf("Revert \"%s\"\n\n%s\n", subject, says)); err == nil {
			s.run(dir, "", "update-ref", ref, oid, tip)
			s.moved(p, user, []smarthttp.RefUpdate{{Ref: ref, Old: tip, New: oid}})
		}
	})
	return oid, err
}

// RenameDefaultBranch does what renames one on GitLab: a branch of the new name, the
// project's setting, and the old branch's end.
func (s *Server) RenameDefaultBranch(projectID, user int64, to string) {
	s.as(user, func(*call) {
		p := s.data.Projects[projectID]
		dir, from := s.dir(p), p.DefaultBranch
		oid := s.ref(p, "refs/heads/"+from)
		s.run(dir, "", "update-ref", "refs/heads/"+to, oid)
		s.moved(p, user, []smarthttp.RefUpdate{{Ref: "refs/heads/" + to, Old: noCommit, New: oid}})
		p.DefaultBranch = to
		s.run(dir, "", "symbolic-ref", "HEAD", "refs/heads/"+to)
		s.run(dir, "", "update-ref", "-d", "refs/heads/"+from)
		s.moved(p, user, []smarthttp.RefUpdate{{Ref: "refs/heads/" + from, Old: oid, New: noCommit}})
	})
}
