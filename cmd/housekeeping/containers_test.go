package housekeeping

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/writbot/writ/cmd/internal/config"
)

// group is the first group of pattern in text.
func group(t *testing.T, pattern, text string) string {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("nothing is like %s", pattern)
	}
	return m[1]
}

// TestContainers_DockerfileIsAsPromised: no engine builds the image in CI, so the
// lines that matter are held here.
func TestContainers_DockerfileIsAsPromised(t *testing.T) {
	text := read(t, "Dockerfile")
	if want := group(t, `(?m)^go (\S+)$`, read(t, "go.mod")); group(t, `(?m)^FROM golang:([0-9.]+)-`, text) != want {
		t.Errorf("Dockerfile: Go isn't %s, as in go.mod", want)
	}
	bases := regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllStringSubmatch(text, -1)
	pinned := regexp.MustCompile(`^(golang:\d+\.\d+\.\d+-[a-z]+|debian:[a-z]+-\d{8}-slim)$`)
	for _, b := range bases {
		if !pinned.MatchString(b[1]) {
			t.Errorf("Dockerfile: %s names no version or day", b[1])
		}
	}
	_, last, _ := strings.Cut(text, "FROM debian:")
	for _, want := range []string{
		"bubblewrap", "ca-certificates", " git ", "USER 10001:10001", "VOLUME /var/lib/writ", "HEALTHCHECK",
		`CMD ["writ", "healthz", "--config", "/etc/writ/writ.yaml"]`,
		`ENTRYPOINT ["/usr/bin/tini", "--", "/usr/local/bin/writ"]`, `CMD ["serve", "--config", "/etc/writ/writ.yaml"]`,
		"-o 10001 -g 10001 -m 0700 /var/lib/writ",
	} {
		if !strings.Contains(last, want) {
			t.Errorf("Dockerfile: the image has no %q", want)
		}
	}
	if _, after, _ := strings.Cut(last, "USER 10001"); strings.Contains(after, "\nRUN") {
		t.Error("Dockerfile: what is run after USER belongs before it")
	}
}

// TestContainers_ContextHasWhatIsBuilt: a new room of code, or one of its files
// that isn't Go, would be missing from the image only.
func TestContainers_ContextHasWhatIsBuilt(t *testing.T) {
	lines := strings.Split(read(t, ".dockerignore"), "\n")
	if i := slices.Index(lines, "*"); i < 0 {
		t.Error(".dockerignore: everything must be left out that isn't named")
	}
	for _, f := range goFiles(t) {
		if top, _, _ := strings.Cut(f.path, "/"); !slices.Contains(lines, "!"+top) {
			t.Errorf(".dockerignore leaves out %s", f.path)
		}
	}
	for _, name := range []string{"go.mod", "go.sum", "Makefile", "LICENSE"} {
		if !slices.Contains(lines, "!"+name) {
			t.Errorf(".dockerignore leaves out %s", name)
		}
	}
}

// TestContainers_ChartNamesTheRelease: the chart runs the release that it is
// part of, and so does the text.
func TestContainers_ChartNamesTheRelease(t *testing.T) {
	want := strings.TrimSpace(read(t, "kernel/VERSION"))
	if got := group(t, `(?m)^appVersion: "(.+)"$`, read(t, "charts/writ/Chart.yaml")); got != want {
		t.Errorf("Chart.yaml: appVersion %s, kernel/VERSION is %s", got, want)
	}
	for _, page := range []string{"docs/containers.md", "charts/writ/README.md"} {
		for _, m := range regexp.MustCompile(`(?:writ:|tag: )v([0-9.]+\d)`).FindAllStringSubmatch(read(t, page), -1) {
			if m[1] != want {
				t.Errorf("%s names the image of %s, kernel/VERSION is %s", page, m[1], want)
			}
		}
	}
}

// followed are the parts of docs/containers.md with commands for a cluster: make
// kube runs each as it stands there.
var followed = []string{"## Configuration", "## Kubernetes", "### Network", "### A restored volume", "### One replica"}

// commandsOf are those of a part that are not for Docker.
func commandsOf(part string) (commands []string) {
	for _, m := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(part, -1) {
		if block := regexp.MustCompile(`(?m)^docker .*\n`).ReplaceAllString(m[1], ""); regexp.MustCompile(`(?m)^(kubectl|helm) |/kubelet/`).MatchString(block) {
			commands = append(commands, block)
		}
	}
	return commands
}

// TestContainers_CommandsAreFollowed: no page tells a command for a cluster that
// nobody runs.
func TestContainers_CommandsAreFollowed(t *testing.T) {
	var with []string
	for _, part := range strings.Split(read(t, "docs/containers.md"), "\n#")[1:] {
		if heading, _, _ := strings.Cut("#"+part, "\n"); len(commandsOf(part)) > 0 {
			with = append(with, heading)
		}
	}
	if !slices.Equal(with, followed) {
		t.Errorf("commands for a cluster are below %q, and make kube follows %q", with, followed)
	}
	if commands := commandsOf(read(t, "charts/writ/README.md")); len(commands) > 0 {
		t.Errorf("make kube follows no commands of charts/writ/README.md: %q", commands)
	}
}

// object is one rendered manifest.
type object struct {
	Kind     string
	Metadata struct {
		Name        string
		Annotations map[string]string
	}
	Auto *bool             `yaml:"automountServiceAccountToken"`
	Data map[string]string `yaml:"data"`
	Spec struct {
		Replicas int
		Strategy struct{ Type string }
		Template struct {
			Spec pod
		}
	}
}

type pod struct {
	Auto     *bool `yaml:"automountServiceAccountToken"`
	Grace    int   `yaml:"terminationGracePeriodSeconds"`
	Users    *bool `yaml:"hostUsers"`
	Security struct {
		NonRoot bool   `yaml:"runAsNonRoot"`
		User    int    `yaml:"runAsUser"`
		Change  string `yaml:"fsGroupChangePolicy"`
		Seccomp struct {
			Type string
			File string `yaml:"localhostProfile"`
		} `yaml:"seccompProfile"`
	} `yaml:"securityContext"`
	Volumes    []volume
	Containers []struct {
		Resources struct {
			Limits struct{ Memory string }
		}
		Env []struct {
			Name, Value string
		}
		Security struct {
			Escalation *bool               `yaml:"allowPrivilegeEscalation"`
			ReadOnly   bool                `yaml:"readOnlyRootFilesystem"`
			ProcMount  string              `yaml:"procMount"`
			Caps       map[string][]string `yaml:"capabilities"`
		} `yaml:"securityContext"`
	}
}

type volume struct {
	Name  string
	Claim struct {
		Name string `yaml:"claimName"`
	} `yaml:"persistentVolumeClaim"`
}

// rendered reads a golden of the chart; make chart holds that they are what the
// chart gives.
func rendered(t *testing.T, name string) map[string]object {
	t.Helper()
	d := yaml.NewDecoder(strings.NewReader(read(t, "charts/writ/goldens/"+name+".yaml")))
	all := map[string]object{}
	for {
		var o object
		if err := d.Decode(&o); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[o.Kind] = o
	}
}

var goldens = []string{"default", "existing", "full"}

// TestContainers_ChartsConfigurationPasses: writ takes the writ.yaml that the
// chart makes, drains before the kubelet kills, and keeps its state on the volume.
func TestContainers_ChartsConfigurationPasses(t *testing.T) {
	for _, name := range goldens {
		all := rendered(t, name)
		file := filepath.Join(t.TempDir(), "writ.yaml")
		if err := os.WriteFile(file, []byte(all["ConfigMap"].Data["writ.yaml"]), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(file)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		grace := time.Duration(all["Deployment"].Spec.Template.Spec.Grace) * time.Second
		if grace < c.Server.Drain+15*time.Second {
			t.Errorf("%s: the kubelet waits %s, a drain takes %s", name, grace, c.Server.Drain)
		}
		if c.Server.StateDir != "/var/lib/writ/state" || c.Server.Listen != "0.0.0.0:8714" {
			t.Errorf("%s: state %s, listens at %s", name, c.Server.StateDir, c.Server.Listen)
		}
		if want := map[bool]string{true: "landlock", false: "bubblewrap"}[name == "existing"]; c.Sandbox != want {
			t.Errorf("%s: sandbox %s, want %s", name, c.Sandbox, want)
		}
	}
}

// TestK4_ChartKeepsOneVolume: one pod at a time has the volume, which outlives the
// release; another claim is used in its place where one is named.
func TestK4_ChartKeepsOneVolume(t *testing.T) {
	for _, name := range goldens {
		all := rendered(t, name)
		set, claim := all["Deployment"].Spec, all["PersistentVolumeClaim"]
		if set.Replicas != 1 || set.Strategy.Type != "Recreate" {
			t.Errorf("%s: %d replicas, replaced by %q: a second pod would find the ledger locked", name, set.Replicas, set.Strategy.Type)
		}
		want := claim.Metadata.Name
		if name == "existing" {
			want = "writ-state"
		} else if claim.Metadata.Annotations["helm.sh/resource-policy"] != "keep" {
			t.Errorf("%s: the ledger goes with the release", name)
		}
		i := slices.IndexFunc(set.Template.Spec.Volumes, func(v volume) bool { return v.Name == "state" })
		if i < 0 || set.Template.Spec.Volumes[i].Claim.Name != want || want == "" {
			t.Errorf("%s: the state isn't on the claim %q", name, want)
		}
	}
}

// TestX6_PodHoldsItsBuilds: all builds at their limits, with what they may write
// into memory, leave room for writ itself below the pod's limit.
func TestX6_PodHoldsItsBuilds(t *testing.T) {
	const own = 2 << 10 // MiB, for writ and git
	for _, name := range goldens {
		all := rendered(t, name)
		c, err := config.Parse(name, []byte(all["ConfigMap"].Data["writ.yaml"]))
		if err != nil {
			t.Fatal(err)
		}
		each := c.Limits.Memory
		if c.Sandbox == config.SandboxBubblewrap {
			each += 3 * c.Limits.Tmp // /tmp, /dev/shm and the home directory
		}
		want := fmt.Sprintf("%dMi", c.Server.Builds*int64(each)>>20+own)
		if got := all["Deployment"].Spec.Template.Spec.Containers[0].Resources.Limits.Memory; got != want {
			t.Errorf("%s: the pod's memory is %s, want %s", name, got, want)
		}
	}
}

// TestContainers_ChartIsRestricted: the pod has no token, no root, no capability
// and nothing to write but its volumes, and opens of this only what bubblewrap
// needs, unless the level is landlock.
func TestContainers_ChartIsRestricted(t *testing.T) {
	for _, name := range goldens {
		all := rendered(t, name)
		set := all["Deployment"]
		p := set.Spec.Template.Spec
		no := func(b *bool) bool { return b != nil && !*b }
		if len(p.Containers) != 1 {
			t.Fatalf("%s: %d containers, want one", name, len(p.Containers))
		}
		c := p.Containers[0]
		if account, made := all["ServiceAccount"]; !no(p.Auto) || made && !no(account.Auto) {
			t.Errorf("%s: a token is mounted", name)
		}
		if !p.Security.NonRoot || p.Security.User != 10001 || p.Security.Change != "OnRootMismatch" {
			t.Errorf("%s: %+v, want the image's user, and a volume whose modes are left alone", name, p.Security)
		}
		if !no(c.Security.Escalation) || !c.Security.ReadOnly || !slices.Equal(c.Security.Caps["drop"], []string{"ALL"}) || len(c.Security.Caps) != 1 {
			t.Errorf("%s: %+v isn't restricted", name, c.Security)
		}
		want, bubblewrap := "RuntimeDefault", name != "existing"
		if bubblewrap {
			want = "Localhost"
		}
		if open := c.Security.ProcMount == "Unmasked" && no(p.Users); p.Security.Seccomp.Type != want || open != bubblewrap {
			t.Errorf("%s: seccomp %s, /proc %q, users of its own %t", name, p.Security.Seccomp.Type, c.Security.ProcMount, no(p.Users))
		}
	}
}

// TestContainers_SecretsAreFiles: what the chart makes a Secret of reaches writ
// as files, but for the names that are asked for as variables.
func TestContainers_SecretsAreFiles(t *testing.T) {
	for name, want := range map[string]map[string]string{
		"default": {},
		"existing": {
			"WRIT_GITLAB_TOKEN_FILE": "/run/secrets/writ/WRIT_GITLAB_TOKEN", "WRIT_GITLAB_HOOK_KEY_FILE": "/run/secrets/writ/WRIT_GITLAB_HOOK_KEY",
		},
		"full": {
			"WRIT_GITHUB_PRIVATE_KEY_FILE": "/run/secrets/writ/WRIT_GITHUB_PRIVATE_KEY", "WRIT_GITHUB_HOOK_SECRET_FILE": "/run/secrets/writ/WRIT_GITHUB_HOOK_SECRET",
			"COLLECTOR_HEADERS": "", "HTTPS_PROXY": "http://proxy.example:3128",
		},
	} {
		env := rendered(t, name)["Deployment"].Spec.Template.Spec.Containers[0].Env
		if len(env) != len(want) {
			t.Errorf("%s: %v, want %v", name, env, want)
		}
		for _, e := range env {
			if value, ok := want[e.Name]; !ok || value != e.Value {
				t.Errorf("%s: %s is %q, want %q", name, e.Name, e.Value, value)
			}
		}
	}
}
