package wire

import (
	"log/slog"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/writbot/writ/cmd/internal/config"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/gitlab/gitlabtest"
)

// TestW9_SignedHookOfTheConfiguration: with hook_keys a delivery counts by its
// signature, and a secret token for nothing.
func TestW9_SignedHookOfTheConfiguration(t *testing.T) {
	key := gitlabtest.SigningToken("one")
	given := ForgeSecrets{Token: "glpat-of-the-tests", keys: []string{key}}
	f, err := (&Process{}).OpenGitLab(t.Context(), config.Default().Forges.GitLab, given, slog.New(slog.DiscardHandler))
	must(t, err)
	defer f.Host.Close()
	h, err := f.Hook(forge.User{ID: 7, Kind: forge.Bot}, Whose{World: func(int64) (string, bool) { return "", false }})
	must(t, err)
	body, at := []byte(`{}`), strconv.FormatInt(time.Now().Unix(), 10)
	signed := http.Header{}
	signed.Set("Webhook-Id", "1")
	signed.Set("Webhook-Timestamp", at)
	signed.Set("Webhook-Signature", gitlabtest.Sign(key, "1", at, body))
	if err := h.Verify(signed, body); err != nil {
		t.Errorf("a signed delivery is refused: %v", err)
	}
	token := http.Header{}
	token.Set("X-Gitlab-Token", key)
	if h.Verify(token, body) == nil {
		t.Error("a secret token counts beside a key")
	}
}
