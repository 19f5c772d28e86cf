//go:build kube

package housekeeping

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// The chart on a real API server: make apiserver, which builds what these tests
// need and says by WRIT_KUBE where it lies (.ci/kube). No node is there, so no pod runs; what
// the server admits is what it admits anywhere.

// cluster is an API server with an etcd of its own.
type cluster struct {
	t          *testing.T
	url        string
	kubeconfig string
}

// bearer is the token of the one user, who may do everything.
const bearer = "the-only-user"

func program(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("WRIT_KUBE")
	if dir == "" {
		t.Fatal("WRIT_KUBE is not set: run make apiserver")
	}
	return filepath.Join(dir, name)
}

// start runs a program until the test ends, and shows its last words if that failed.
func start(t *testing.T, path string, args ...string) {
	t.Helper()
	var said bytes.Buffer
	c := exec.Command(path, args...)
	c.Stdout, c.Stderr = &said, &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		if t.Failed() {
			t.Logf("%s:\n%s", filepath.Base(path), said.Bytes()[max(0, said.Len()-1500):])
		}
	})
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// newCluster starts one at an address of this machine. What is started after it
// finds in its directory the key of the service accounts.
func newCluster(t *testing.T, dir, address string, more ...string) *cluster {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	accounts := write(t, filepath.Join(dir, "accounts.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})))
	users := write(t, filepath.Join(dir, "users.csv"), bearer+",admin,admin,system:masters\n")
	etcd, peers, port := "http://127.0.0.1:"+freePort(t), "http://127.0.0.1:"+freePort(t), freePort(t)
	start(t, "etcd", "--data-dir", filepath.Join(dir, "etcd"), "--listen-client-urls", etcd, "--advertise-client-urls", etcd,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default="+peers)
	start(t, program(t, "kube-apiserver"), append(more, "--etcd-servers", etcd, "--cert-dir", filepath.Join(dir, "certs"), "--bind-address", address,
		"--secure-port", port, "--service-account-key-file", accounts, "--service-account-signing-key-file", accounts,
		"--service-account-issuer", "https://writ.test", "--token-auth-file", users, "--authorization-mode", "RBAC", "--service-cluster-ip-range", "10.96.0.0/16")...)
	c := &cluster{t: t, url: "https://" + net.JoinHostPort(address, port)}
	c.kubeconfig = write(t, filepath.Join(dir, "kubeconfig"), fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c",
"clusters":[{"name":"c","cluster":{"server":%q,"insecure-skip-tls-verify":true}}],
"users":[{"name":"u","user":{"token":%q}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}]}`, c.url, bearer))
	c.until("the API server is ready", func() bool {
		status, _ := c.ask(http.MethodGet, "/readyz", nil)
		return status == http.StatusOK
	})
	return c
}

// until asks until it is so.
func (c *cluster) until(what string, is func() bool) {
	c.t.Helper()
	ctx, stop := context.WithTimeout(c.t.Context(), 5*time.Minute)
	defer stop()
	again := time.NewTicker(300 * time.Millisecond)
	defer again.Stop()
	for !is() {
		select {
		case <-again.C:
		case <-ctx.Done():
			c.t.Fatalf("it isn't so that %s", what)
		}
	}
}

var client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}

// ask sends one request, with an object as JSON.
func (c *cluster) ask(method, path string, object any) (status int, answer string) {
	c.t.Helper()
	body, err := json.Marshal(object)
	if err != nil {
		c.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, bytes.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+bearer)
	r.Header.Set("Content-Type", "application/json")
	w, err := client.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer w.Body.Close()
	text, err := io.ReadAll(w.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return w.StatusCode, string(text)
}

// made fails unless an object is taken.
func (c *cluster) made(path string, object any) {
	c.t.Helper()
	if status, answer := c.ask(http.MethodPost, path, object); status != http.StatusCreated {
		c.t.Fatalf("%s: %d %s", path, status, answer)
	}
}

type fields = map[string]any

// namespace makes one of a Pod Security level, with the accounts that a controller
// would make.
func (c *cluster) namespace(name, level string, accounts ...string) {
	c.t.Helper()
	c.made("/api/v1/namespaces", fields{"metadata": fields{"name": name, "labels": fields{"pod-security.kubernetes.io/enforce": level, "pod-security.kubernetes.io/warn": level}}})
	for _, a := range append(accounts, "default") {
		c.made("/api/v1/namespaces/"+name+"/serviceaccounts", fields{"metadata": fields{"name": a}})
	}
}

// dry has a pod examined as if it were made.
func (c *cluster) dry(namespace string, spec any) (status int, answer string) {
	c.t.Helper()
	return c.ask(http.MethodPost, "/api/v1/namespaces/"+namespace+"/pods?dryRun=All&fieldValidation=Strict",
		fields{"apiVersion": "v1", "kind": "Pod", "metadata": fields{"name": "tried"}, "spec": spec})
}

func (c *cluster) helm(args ...string) (string, error) {
	c.t.Helper()
	h := exec.CommandContext(c.t.Context(), program(c.t, "helm"), args...)
	h.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig, "HELM_CACHE_HOME="+c.t.TempDir())
	out, err := h.CombinedOutput()
	return string(out), err
}

// goes fails unless helm does it, without a warning of the server.
func (c *cluster) goes(args ...string) {
	c.t.Helper()
	if out, err := c.helm(args...); err != nil || strings.Contains(out, "arning") || strings.Contains(out, "PodSecurity") {
		c.t.Errorf("helm %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

const chartDir = "../../charts/writ"

func valuesOf(name string) string { return chartDir + "/goldens/" + name + ".values.yaml" }

// monitors teaches the server what a ServiceMonitor is.
func (c *cluster) monitors() {
	c.t.Helper()
	c.made("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", fields{
		"metadata": fields{"name": "servicemonitors.monitoring.coreos.com"},
		"spec": fields{
			"group": "monitoring.coreos.com", "scope": "Namespaced", "names": fields{"kind": "ServiceMonitor", "plural": "servicemonitors"},
			"versions": []any{fields{"name": "v1", "served": true, "storage": true, "schema": fields{"openAPIV3Schema": fields{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}},
		},
	})
	c.until("the kind is served", func() bool {
		status, _ := c.ask(http.MethodGet, "/apis/monitoring.coreos.com/v1", nil)
		return status == http.StatusOK
	})
}

// TestContainers_ServerTakesTheChart: each documented set of values is installed and
// upgraded, and its pod is admitted in a namespace of the Pod Security level that
// the page names, and in none below; a ServiceMonitor only where its kind is known.
func TestContainers_ServerTakesTheChart(t *testing.T) {
	c := newCluster(t, t.TempDir(), "127.0.0.1")
	c.namespace("baseline", "baseline", "writ", "agents")
	for _, name := range goldens {
		level, space := map[bool]string{true: "restricted", false: "privileged"}[name == "existing"], "with-"+name
		c.namespace(space, level, "agents")
		c.goes("install", "writ", chartDir, "--namespace", space, "--values", valuesOf(name))
		var made struct {
			Spec struct {
				Template struct{ Spec fields }
			}
		}
		status, answer := c.ask(http.MethodGet, "/apis/apps/v1/namespaces/"+space+"/deployments/writ", nil)
		if err := json.Unmarshal([]byte(answer), &made); err != nil || status != http.StatusOK {
			t.Fatalf("%s: %d %v", name, status, err)
		}
		pod := made.Spec.Template.Spec
		delete(pod, "priorityClassName") // the cluster's own
		if status, answer := c.dry(space, pod); status != http.StatusCreated {
			t.Errorf("%s: the pod is refused: %d %s", name, status, answer)
		}
		if status, answer := c.dry("baseline", pod); (status == http.StatusCreated) != (level == "restricted") {
			t.Errorf("%s: in a namespace of the level baseline: %d %s", name, status, answer)
		}
	}
	c.monitors()
	c.goes("upgrade", "writ", chartDir, "--namespace", "with-full", "--values", valuesOf("full"))
	if status, answer := c.ask(http.MethodGet, "/apis/monitoring.coreos.com/v1/namespaces/with-full/servicemonitors/writ", nil); status != http.StatusOK {
		t.Errorf("no ServiceMonitor where its kind is known: %d %s", status, answer)
	}
}

// TestK4_ServerKeepsTheClaim: the claim outlives the release and is taken up by the
// next of its name; one of an earlier chart isn't passed over in silence.
func TestK4_ServerKeepsTheClaim(t *testing.T) {
	c := newCluster(t, t.TempDir(), "127.0.0.1")
	claims := func(namespace string) string { return "/api/v1/namespaces/" + namespace + "/persistentvolumeclaims" }
	for _, n := range []string{"earlier", "writ"} {
		c.namespace(n, "privileged")
	}
	c.made(claims("earlier"), fields{
		"metadata": fields{"name": "state-writ-0"},
		"spec":     fields{"accessModes": []string{"ReadWriteOnce"}, "resources": fields{"requests": fields{"storage": "1Gi"}}},
	})
	install := []string{"install", "writ", chartDir, "--namespace"}
	if out, err := c.helm(append(install, "earlier")...); err == nil || !strings.Contains(out, "Set persistence.existingClaim to state-writ-0") {
		t.Errorf("beside the claim of an earlier chart: %v\n%s", err, out)
	}
	c.goes(append(install, "earlier", "--set", "persistence.existingClaim=state-writ-0")...)
	for range 2 {
		c.goes(append(install, "writ")...)
		c.goes("uninstall", "writ", "--namespace", "writ")
		if status, answer := c.ask(http.MethodGet, claims("writ")+"/writ", nil); status != http.StatusOK {
			t.Errorf("the claim went with the release: %d %s", status, answer)
		}
	}
}

// TestContainers_ServerTakesThePagesPods: the pods of docs/containers.md are
// admitted where the page says.
func TestContainers_ServerTakesThePagesPods(t *testing.T) {
	c := newCluster(t, t.TempDir(), "127.0.0.1")
	levels := map[string]string{"wall": "restricted", "mend": "baseline"}
	for _, m := range regexp.MustCompile("(?s)```yaml\n(apiVersion: v1\nkind: Pod\n.*?)```").FindAllStringSubmatch(read(t, "docs/containers.md"), -1) {
		var pod struct {
			Metadata struct{ Name string }
			Spec     fields
		}
		if err := yaml.Unmarshal([]byte(m[1]), &pod); err != nil {
			t.Fatal(err)
		}
		name := pod.Metadata.Name
		c.namespace(name, levels[name])
		if status, answer := c.dry(name, pod.Spec); status != http.StatusCreated {
			t.Errorf("%s: %d %s", name, status, answer)
		}
		delete(levels, name)
	}
	if len(levels) > 0 {
		t.Errorf("the page has no pods %v", levels)
	}
}
