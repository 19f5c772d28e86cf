package webhook_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/writbot/writ/compliance/store"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/webhook"
	"github.com/writbot/writ/webhook/inbox"
)

// TestW8_NothingSecretStored: a label that was set comes from each forge into
// the store as evidence of the same text, with the bytes and what signed them;
// and no token and no key is in the store's files.
func TestW8_NothingSecretStored(t *testing.T) {
	for name, c := range map[string]struct {
		hook webhook.Hook
		body object
		head func(body []byte) http.Header
	}{
		"github":           {githubHook(t, nil), githubIssue("labeled"), func(b []byte) http.Header { return githubHead("issues", b) }},
		"gitlab, by token": {gitlabHook(t, nil), gitlabIssueHook("update"), func([]byte) http.Header { return gitlabHead("Issue Hook") }},
		"gitlab, signed":   {signedHook(t, signingKey), gitlabIssueHook("update"), func(b []byte) http.Header { return signedHead("Issue Hook", noon, b) }},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			db := openStore(t, filepath.Join(dir, store.FileName))
			box := inbox.New(db)
			r := start(t, func(s *webhook.Config) { s.Hooks, s.Inbox = []webhook.Hook{c.hook}, webhook.StoreInbox(box) })
			body := jsonOf(t, c.body)
			got := r.deliver(c.hook.Name(), body, c.head(body))
			kept, err := box.Evidence(t.Context(), world, 3)
			digest, hashErr := kernel.ApprovalDigest("Add fails", "canary-body-of-the-issue")
			want := []inbox.StoredEvidence{{
				Evidence: inbox.Evidence{World: world, Task: 3, Kind: "label", Ref: "writ", ActorID: "2", Digest: string(digest), EventMs: 1_800_000_000_000},
				Hook:     c.hook.Name(), Delivery: got.Delivery,
			}}
			if diff := cmp.Diff(want, kept); err != nil || hashErr != nil || diff != "" {
				t.Errorf("%v, %v, %s", err, hashErr, diff)
			}
			d, found, err := box.Payload(t.Context(), c.hook.Name(), got.Delivery)
			if err != nil || !found || !bytes.Equal(d.Body, body) || (d.Signature == "") != (name == "gitlab, by token") {
				t.Errorf("%+v, %v, %v", d, found, err)
			}
			closeStore(t, db)
			notInFiles(t, dir, secret, signingKey[len("whsec_"):])
		})
	}
}

func notInFiles(t *testing.T, dir string, secrets ...string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range secrets {
			if bytes.Contains(data, []byte(s)) {
				t.Errorf("%s holds a secret", f.Name())
			}
		}
	}
}
