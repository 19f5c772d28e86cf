package gitlabtest

import "net/http"

// Protected is a protected branch of a project.
type Protected struct {
	ID   int64
	Name string // * stands for any text
	Push int    // the level that may push; 0: nobody
	User int64  // an account that may, too; 0 for none
}

// PushRule is what a project with a licence asks of every commit.
type PushRule struct {
	Message, Branch, Email                string
	Members, Committer, Signed, SignedOff bool
}

// aboutProtection is what keeps pushes from branches. A new project protects its
// default branch; push rules need a licence.
func aboutProtection() []route {
	return []route{
		{method: "GET", pattern: aProject + "/protected_branches", handle: listProtections, paged: true, params: params{"search": text}},
		{method: "GET", pattern: aProject + "/push_rule", handle: getPushRule},
	}
}

// Protect adds a protected branch. What it says holds for the API; the fake's git
// lets every Developer push.
func (s *Server) Protect(projectID int64, p Protected) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.ID = s.data.id()
	s.data.Projects[projectID].Protected = append(s.data.Projects[projectID].Protected, &p)
}

// SetPushRule sets the push rules of a project.
func (s *Server) SetPushRule(projectID int64, r PushRule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.data.Projects[projectID].PushRule = &r
}

// DisableHook is what GitLab does to a hook that failed too often: "disabled" for
// good, "temporarily_disabled" for a while.
func (s *Server) DisableHook(projectID, hookID int64, state string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.data.Projects[projectID].Hooks {
		if h.ID == hookID {
			h.Disabled = state
		}
	}
}

// SwitchIssuesOff does so in the project's settings.
func (s *Server) SwitchIssuesOff(projectID int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.data.Projects[projectID].NoIssues = true
}

func (p Protected) levels() []any {
	level := func(n int64, level, user any) any {
		return map[string]any{
			"id": n, "access_level": level, "access_level_description": "", "user_id": user, "group_id": nil, "deploy_key_id": nil,
		}
	}
	out := []any{level(p.ID+1, p.Push, nil)}
	if p.User != 0 {
		out = append(out, level(p.ID+2, nil, p.User))
	}
	return out
}

func listProtections(c *call) (any, error) {
	p, err := c.allowed(Maintainer)
	if err != nil {
		return nil, err
	}
	all := append([]*Protected{{ID: 1, Name: p.DefaultBranch, Push: Maintainer}}, p.Protected...)
	return page(c, all, func(b *Protected) any {
		return map[string]any{
			"id": b.ID, "name": b.Name, "push_access_levels": b.levels(), "merge_access_levels": b.levels(), "unprotect_access_levels": []any{},
			"allow_force_push": false, "code_owner_approval_required": false, "inherited": false,
		}
	}), nil
}

// getPushRule: without a licence there is no such address.
func getPushRule(c *call) (any, error) {
	p, err := c.allowed(Maintainer)
	if err != nil {
		return nil, err
	}
	r := p.PushRule
	if r == nil {
		return nil, says(http.StatusNotFound, "404 Not Found")
	}
	return map[string]any{
		"id": 1, "project_id": p.ID, "commit_message_regex": r.Message, "commit_message_negative_regex": "", "branch_name_regex": r.Branch,
		"author_email_regex": r.Email, "file_name_regex": "", "max_file_size": 0, "member_check": r.Members, "prevent_secrets": false,
		"commit_committer_check": r.Committer, "commit_committer_name_check": false, "reject_unsigned_commits": r.Signed,
		"reject_non_dco_commits": r.SignedOff, "deny_delete_tag": false, "created_at": stamp(p.Created),
	}, nil
}
