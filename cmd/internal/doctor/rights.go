package doctor

import (
	"context"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/forge"
)

// permission asks for what writ's account may do, in the contract's words.
func (p *patient) permission(ctx context.Context) result {
	self, err := p.client().Self(ctx)
	if err != nil {
		return p.refused(err, "Writ's own account can't be read")
	}
	may, err := p.client().Permission(ctx, p.at(), self.ID)
	if err != nil {
		return p.refused(err, "What writ may do can't be read")
	}
	if may < forge.Write {
		return bad(grant[p.Forge], "Writ's account %s may not write there.", self.Login)
	}
	return ok("Writ's account %s may write there.", self.Login)
}

var grant = map[string]string{
	"github": "Give the token's owner the role Write in the repository: Settings, Collaborators.",
	"gitlab": "Give the token's account the role Developer or more: Manage, Members; or make the token anew with it.",
	"local":  "`writ forge grant` gives it write permission.",
}

// taskBranch is that of a task 1 with `refs: heads`, and taskMessage the subject
// of a commit there.
const (
	taskBranch  = "writ/task/1"
	taskMessage = "writ: attempt 1 at task 1"
)

// pushed are the branches that writ pushes there, as names of a task 1.
func (p *patient) pushed() []string {
	out := []string{"writ/change/1"}
	if p.Refs == config.RefsHeads {
		out = append(out, taskBranch)
	}
	return out
}

// unseen is the result where rules can't be read.
func (p *patient) unseen(err error) result {
	if forge.IsReason(err, forge.Forbidden) || forge.IsReason(err, forge.NotFound) || forge.IsReason(err, forge.Unauthorized) {
		return warn("Look yourself: writ must be let push to writ/change/* (and, with `refs: heads`, to writ/task/*; with deliver: push, to the base).",
			"The rules for branches can't be seen (%s).", plain(err))
	}
	return p.refused(err, "The rules for branches can't be read")
}
