package builder

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestCached_InUse: what a run uses is listed as such and stays; what none uses is removed,
// and the next run makes it anew. Nothing beside the layers is ever touched.
func TestCached_InUse(t *testing.T) {
	t.Parallel()
	if !showing(t) {
		return
	}
	b, steps, _ := prepares(t, nil)
	job := b.job(script("echo begun; sleep 60"))
	job.Prepare, job.World = steps, "here"
	begun := make(chan string, 10)
	job.OnLine = func(line string) { begun <- line }
	r, err := b.local.Build(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	for line := ""; line != "begun"; {
		select {
		case line = <-begun:
		case <-time.After(waitLimit):
			t.Fatal("the builder didn't begin")
		}
	}
	dir := b.cfg.Layers.Dir
	list, err := ListCached(dir)
	used := 0
	for _, c := range list {
		if c.Kind == kindPrepare && c.InUse {
			used++
			if err := RemoveCached(dir, c.Name); !errors.Is(err, ErrInUse) {
				t.Errorf("%s: %v", c.Name, err)
			}
			if c.World != "here" || c.Made == nil || c.Bytes == 0 || len(c.Steps) != 1 {
				t.Errorf("%+v", c)
			}
		}
	}
	if err != nil || used != 2 {
		t.Errorf("%+v, %v", list, err)
	}
	r.Kill()
	b.local.stock.busy.Wait() // workspaces go in the background
	for _, c := range list {
		if err := RemoveCached(dir, c.Name); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
	if list, err := ListCached(dir); len(list) > 0 || err != nil {
		t.Errorf("left are %+v, %v", list, err)
	}
	if o := b.prepared(steps, "echo x > calc/new"); stepNames(o.Result.Prepared) != "download 0, warm 0" {
		t.Errorf("ran %q", stepNames(o.Result.Prepared))
	}
	beside := filepath.Join(filepath.Dir(dir), "beside")
	if err := os.Mkdir(beside, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"..", ".", "", "../beside", ".new-1", beside} {
		if err := RemoveCached(dir, name); err == nil {
			t.Errorf("%q was removed", name)
		}
	}
	if _, err := os.Stat(beside); err != nil {
		t.Error(err)
	}
}
