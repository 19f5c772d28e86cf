//go:build builds

package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Builds that people have, unmodified, with tools and dependencies that are laid in
// beforehand: make builds. Not in the ordinary suite, for they take minutes.

// builds is where the projects of testdata/builds are, with the caches of npm and Go.
var builds = sync.OnceValues(func() (string, error) {
	if given := os.Getenv(buildsVar); given != "" {
		return given, nil
	}
	self, err := publicSelf()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(filepath.Dir(self), "builds")
	if err := os.CopyFS(dir, os.DirFS("testdata/builds")); err != nil {
		return "", err
	}
	// With a module file it would not be a part of this repository's module.
	if err := os.WriteFile(filepath.Join(dir, "go", "go.mod"), []byte("module example.test/built\n\ngo 1.24\n"), 0o644); err != nil {
		return "", err
	}
	// The standard library for the race detector takes a minute to compile.
	for _, lay := range []string{
		"cd npm && npm ci --ignore-scripts --no-audit --no-fund --cache ../npm-cache && rm -r node_modules",
		"cd go && GOCACHE=$PWD/../go-cache go test -race ./...",
		"chmod -R a+rX .",
	} {
		cmd := exec.Command("sh", "-c", lay)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: %w\n%s", lay, err, out)
		}
	}
	return dir, nil
})

// buildsVar tells the run as an ordinary user, which is elsewhere, where they are.
const buildsVar = "WRIT_TEST_BUILDS"

// TestBuilds_EachLevel builds and tests them at each level, as root and not.
func TestBuilds_EachLevel(t *testing.T) {
	dir, err := builds()
	if err != nil {
		t.Fatal(err)
	}
	eachLevel(t, func(t *testing.T, s Sandbox) {
		for name, commands := range map[string]string{
			"go": `mkdir "$HOME/.cache" && cp -r "$LAID/go-cache" "$HOME/.cache/go-build" && go test -race ./...`,
			// npm writes to its cache.
			"npm":    `cp -r "$LAID/npm-cache" "$HOME/.npm" && npm ci --offline --no-audit --no-fund && npm test`,
			"python": `python3 -m pytest -p no:cacheprovider && python3 -m pip wheel --no-index --no-build-isolation --no-deps -w dist . && ls dist/*.whl`,
			// Maven writes to its repository, and Debian's is a tree of links.
			"maven": `mkdir "$HOME/.m2" && cp -rL /usr/share/maven-repo "$HOME/.m2/repository" && mvn -o -B -q verify && ls target/built-1.0.0.jar`,
			"cpp":   `cmake -S . -B build -DCMAKE_BUILD_TYPE=Debug && cmake --build build -j2 && ctest --test-dir build --output-on-failure`,
		} {
			t.Run(name, func(t *testing.T) {
				spec := script(t, commands)
				if err := os.CopyFS(spec.Workspace, os.DirFS(filepath.Join(dir, name))); err != nil {
					t.Fatal(err)
				}
				spec.ReadOnly = []Mount{{Source: dir, Target: "/laid"}}
				if name == "maven" { // it doesn't go on without, where it sees that they are there
					spec.ReadOnly = append(spec.ReadOnly, Mount{Source: "/etc/maven/settings.xml"})
				}
				spec.Env = append(slices.Clone(spec.Env), "LAID=/laid", "GOTOOLCHAIN=local", "GOFLAGS=-mod=mod", "GOPROXY=off")
				r := start(t, s, spec)
				<-r.Done() // go test's own limit ends a hang
				e := r.Wait()
				if e.Cause != CauseExited || e.Code != 0 {
					t.Errorf("exit = %+v; output:\n%s", e, r.out.TailText(8000))
				}
				t.Logf("%v of processor time, refused: %s", e.CPU.Round(time.Second), strings.Join(e.Denied, " "))
			})
		}
	})
}

// TestBuilds_OrdinaryUser does so once more as an ordinary user.
func TestBuilds_OrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("not root: the other test ran as an ordinary user")
		return
	}
	dir, err := builds()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(buildsVar, dir)
	asOrdinaryUser(t, "^TestBuilds_EachLevel$", "TestBuilds_EachLevel")
}
