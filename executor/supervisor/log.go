package supervisor

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/kernel"
)

// scopeNotes are those that somebody wants to read before a builder has run for
// nothing.
func scopeNotes(p kernel.SeedPack) []string {
	var notes []string
	for _, n := range p.Notes {
		if strings.HasPrefix(n, scope.UnmatchedIn) {
			notes = append(notes, n)
		}
	}
	return notes
}

func codeWords(codes []kernel.Code) string {
	if len(codes) == 0 {
		return ""
	}
	words := make([]string, len(codes))
	for i, c := range codes {
		words[i] = string(c)
	}
	return " (" + strings.Join(words, ", ") + ")"
}

// say tells the person who watches, and the log. What it is used for makes about five
// lines for an issue from its approval to its closing.
func (sj *subject) say(format string, args ...any) { sj.tell(slog.LevelInfo, format, args...) }

// mention is say for the steps between, which the log has only where somebody looks for
// something (log_level: debug).
func (sj *subject) mention(format string, args ...any) { sj.tell(slog.LevelDebug, format, args...) }

func (sj *subject) tell(level slog.Level, format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if sj.s.deps.Progress != nil {
		sj.s.deps.Progress(line)
	}
	sj.log().Log(context.Background(), level, line)
}
