package gitlab

import (
	"context"

	gitlab "github.com/xanzy/go-gitlab"

	"github.com/writbot/writ/forge"
)

// ReviewComments is forge.Reviews: the notes of a merge request that people wrote for
// everybody who may read it.
func (h *Host) ReviewComments(ctx context.Context, r forge.Repo, change int64) ([]forge.ReviewComment, error) {
	at, w := threadOf(change), reading("list the notes of %s#%d", r, change)
	if err := ctx.Err(); err != nil {
		return nil, w.err(err)
	}
	if !at.merge {
		return nil, w.refuse(forge.NotFound, "it is an issue")
	}
	notes, said, err := h.readThread(ctx, w, r, at)
	if err != nil {
		return nil, err
	}
	err = h.edits(ctx, w.op, said, func(forge.Comment) bool { return true })
	var out []forge.ReviewComment
	for i, n := range notes {
		one := forge.ReviewComment{Comment: said[i], Kind: forge.ReviewTalk, Resolved: n.Resolved}
		if n.Position != nil {
			one.Kind, one.Place = forge.ReviewLine, placeOf(n.Position)
		}
		out = append(out, one)
	}
	return out, err
}

// placeOf is where a note stands. Lines that the change left alone have a number on both
// sides; then it is the new one. A range whose ends are on two sides is the file's, and so
// is a place of an image.
func placeOf(p *gitlab.NotePosition) *forge.ReviewPlace {
	out := &forge.ReviewPlace{Path: p.NewPath, Commit: p.HeadSHA}
	if p.PositionType != "text" {
		return out
	}
	line := func(was, is int) (int64, bool) {
		if is != 0 {
			return int64(is), false
		}
		return int64(was), true
	}
	end, old := line(p.OldLine, p.NewLine)
	start, same := end, true
	if lr := p.LineRange; lr != nil && lr.StartRange != nil && lr.EndRange != nil {
		var from, to bool
		start, from = line(lr.StartRange.OldLine, lr.StartRange.NewLine)
		end, to = line(lr.EndRange.OldLine, lr.EndRange.NewLine)
		same = from == old && to == old
	}
	if !same {
		return out
	}
	if out.Start, out.End, out.Old = start, end, old; old {
		out.Path = p.OldPath
	}
	return out
}
