//go:build kube

package housekeeping

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// One node made by hand, in namespaces that .ci/kube opens: make kube. The commands
// and pods of docs/containers.md are run as they stand there.

const (
	nodeAddress = "10.98.0.1"

	// runtimeConfig: this machine may have no right to lower oom_score_adj.
	runtimeConfig = `version = 3
root = "DIR/containerd"
state = "/run/containerd"
[grpc]
  address = "/run/containerd.sock"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "docker.io/library/pause:1"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = "TOOLS/runc"
      SystemdCgroup = false
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["TOOLS"]
    conf_dir = "DIR/cni"
`
	// networkConfig: the plain bridge, which enforces no NetworkPolicy.
	networkConfig = `{"cniVersion":"1.0.0","name":"pods","plugins":[{"type":"bridge","bridge":"pods0","isGateway":true,
"ipam":{"type":"host-local","dataDir":"DIR/ipam","ranges":[[{"subnet":"10.97.0.0/24"}]],"routes":[{"dst":"0.0.0.0/0"}]}}]}`

	kubeletConfig = `{"apiVersion":"kubelet.config.k8s.io/v1beta1","kind":"KubeletConfiguration","cgroupDriver":"cgroupfs","failSwapOn":false,
"containerRuntimeEndpoint":"unix:///run/containerd.sock","authentication":{"anonymous":{"enabled":true},"webhook":{"enabled":false}},
"authorization":{"mode":"AlwaysAllow"},"singleProcessOOMKill":true,"evictionHard":{"nodefs.available":"256Mi"},"configMapAndSecretChangeDetectionStrategy":"Watch"}`

	localVolume = `{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"NAME"},"spec":{"capacity":{"storage":"10Gi"},"accessModes":["ReadWriteOnce"],
"persistentVolumeReclaimPolicy":"Retain","claimRef":{"namespace":"writ","name":"NAME"},"local":{"path":"DIR/volume-NAME"},"nodeAffinity":{"required":
{"nodeSelectorTerms":[{"matchExpressions":[{"key":"kubernetes.io/hostname","operator":"In","values":["node"]}]}]}}}}`
)

// node is a cluster of one node, and a directory in which a person works.
type node struct {
	*cluster
	dir  string
	done []string // parts of docs/containers.md that were followed
}

func newNode(t *testing.T) *node {
	t.Helper()
	dir, tools := os.Getenv("WRIT_NODE"), os.Getenv("WRIT_KUBE")
	if dir == "" {
		t.Fatal("WRIT_NODE is not set: run make kube")
	}
	n := &node{cluster: newCluster(t, dir, nodeAddress, "--allow-privileged", "--kubelet-preferred-address-types=InternalIP"), dir: dir}
	place := func(name, text string) string {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		return write(t, filepath.Join(dir, name), strings.NewReplacer("DIR", dir, "TOOLS", tools).Replace(text))
	}
	place("cni/10-pods.conflist", networkConfig)
	start(t, program(t, "containerd"), "-c", place("containerd.toml", runtimeConfig))
	start(t, program(t, "kube-controller-manager"), "--kubeconfig", n.kubeconfig, "--service-account-private-key-file", filepath.Join(dir, "accounts.pem"), "--leader-elect=false")
	start(t, program(t, "kube-scheduler"), "--kubeconfig", n.kubeconfig, "--leader-elect=false")
	images := []string{"-a", "/run/containerd.sock", "-n", "k8s.io", "images"}
	n.until("containerd answers", func() bool { return exec.Command(program(t, "ctr"), append(images, "list")...).Run() == nil })
	if out, err := exec.Command(program(t, "ctr"), append(images, "import", filepath.Join(dir, "image.tar"))...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	start(t, program(t, "kubelet"), "--config", place("kubelet.json", kubeletConfig), "--kubeconfig", n.kubeconfig, "--node-ip", nodeAddress, "--hostname-override", "node")
	n.until("the node is ready", func() bool {
		out, _ := n.sh("kubectl get nodes")
		return strings.Contains(out, " Ready ")
	})
	must(t, os.Symlink(filepath.Join(root(t), "charts"), filepath.Join(dir, "charts")))
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	write(t, filepath.Join(dir, "app.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})))
	write(t, filepath.Join(dir, "hook"), "0123456789abcdef0123456789abcdef")
	place("values.yaml", group(t, "(?s)```yaml\n(.*?)```", read(t, "charts/writ/README.md")))
	for _, claim := range []string{"writ", "state-writ-0"} {
		must(t, os.Mkdir(filepath.Join(dir, "volume-"+claim), 0o755))
		n.does("kubectl create -f " + place(claim+".json", strings.ReplaceAll(localVolume, "NAME", claim)))
	}
	return n
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sh runs commands as a person would, for so long as a person would wait.
func (n *node) sh(commands string) (string, error) {
	n.t.Helper()
	ctx, stop := context.WithTimeout(n.t.Context(), 4*time.Minute)
	defer stop()
	c := exec.CommandContext(ctx, "bash", "-ec", commands)
	c.Dir, c.Env = n.dir, append(os.Environ(), "KUBECONFIG="+n.kubeconfig, "HOME="+n.dir)
	out, err := c.CombinedOutput()
	return string(out), err
}

func (n *node) does(commands string) string {
	n.t.Helper()
	out, err := n.sh(commands)
	n.fine(commands, out, err)
	return out
}

// fine ends the test, with the state of things, unless commands went through.
func (n *node) fine(commands, out string, err error) {
	n.t.Helper()
	if err != nil {
		state, _ := n.sh("kubectl -n writ get pods,events; kubectl -n writ logs --tail=5 -l app.kubernetes.io/name=writ")
		n.t.Fatalf("%s\n%v\n%s\n%s", commands, err, out, state)
	}
}

// follow runs the commands of a part of docs/containers.md as they stand there, with
// its pods in files of their names.
func (n *node) follow(heading string) (string, error) {
	n.t.Helper()
	_, part, found := strings.Cut(read(n.t, "docs/containers.md"), "\n"+heading+"\n")
	part, _, _ = strings.Cut(part, "\n#")
	for _, m := range regexp.MustCompile("(?s)```yaml\n(apiVersion: v1\nkind: Pod\nmetadata: \\{name: ([a-z]+).*?)```").FindAllStringSubmatch(part, -1) {
		write(n.t, filepath.Join(n.dir, m[2]+".yaml"), m[1])
	}
	commands := commandsOf(part)
	if !found || len(commands) == 0 {
		n.t.Fatalf("docs/containers.md has no commands below %q", heading)
	}
	n.done = append(n.done, heading)
	return n.sh(strings.Join(commands, "\n"))
}

// follows is follow, where every command must do what it is for.
func (n *node) follows(heading string) string {
	n.t.Helper()
	out, err := n.follow(heading)
	n.fine(heading, out, err)
	return out
}

// ready waits until the one pod is, and gives its name.
func (n *node) ready() string {
	n.t.Helper()
	n.does("kubectl -n writ rollout status deployment/writ --timeout=120s")
	n.until("there is one pod", func() bool { return len(n.pods()) == 1 })
	return n.pods()[0]
}

func (n *node) pods() []string {
	out, _ := n.sh("kubectl -n writ get pods -l app.kubernetes.io/name=writ -o name")
	return strings.Fields(out)
}

// says waits until a pod's log, or that of its last try, has some words.
func (n *node) says(pod, words string) {
	n.t.Helper()
	n.until(pod+" says "+words, func() bool {
		now, _ := n.sh("kubectl -n writ logs " + pod)
		before, _ := n.sh("kubectl -n writ logs --previous " + pod)
		return strings.Contains(now+before, words)
	})
}

func (n *node) level(pods string) {
	n.does("kubectl label --overwrite namespace writ pod-security.kubernetes.io/enforce=" + pods)
}

const upgrade = "helm upgrade writ charts/writ -n writ -f values.yaml -f more.yaml --wait --timeout=120s "

// more are values beside those of the chart's page: the embedded forge within the
// pod, and what a test needs.
func (n *node) more(values string) {
	n.t.Helper()
	write(n.t, filepath.Join(n.dir, "more.yaml"), `config:
  server: {builds: 1, sweep: 5s}
  builders:
    default: {argv: [sed, -i, s/hello/welcome/, greeting.txt]}
    hungry: {argv: [bash, -c, for d in /tmp /dev/shm ~; do head -c 1000M /dev/zero >$d/much; done]}
  forges:
    local: {dir: /var/lib/writ/forge, url: 'http://127.0.0.1:8715', repositories: [ana/shop]}
extraEnv:
  - {name: WRIT_LOCAL_TOKEN_FILE, value: /var/lib/writ/writ.token}
  - {name: WRIT_LOCAL_HOOK_SECRET_FILE, value: /var/lib/writ/hook.secret}
serviceMonitor: {enabled: true}
`+values)
}

// in runs commands in the pod, in the volume.
func (n *node) in(commands string) string {
	n.t.Helper()
	return n.does("kubectl -n writ exec deployment/writ -- bash -ec 'cd /var/lib/writ\n" + commands + "'")
}

// TestContainers_NodeRunsTheChart follows docs/containers.md on a node. Each part
// goes on where the one before ended.
func TestContainers_NodeRunsTheChart(t *testing.T) {
	n := newNode(t)
	t.Log(n.does("kubectl get nodes -o wide"))
	for _, part := range []struct {
		name string
		do   func(*node)
	}{
		{"the chart is installed", (*node).installed},
		{"X9 a task from label to closed under bubblewrap", (*node).taskUnderBubblewrap},
		{"X6 memory that runs out takes the builder and not writ", (*node).memory},
		{"a task from label to closed under landlock", (*node).taskUnderLandlock},
		{"K4 a second replica is refused", (*node).secondReplica},
		{"W2 configuration is taken over by the running pod", (*node).configuration},
		{"a bad image is rolled back", (*node).badImage},
		{"a restored volume is mended", (*node).restoredVolume},
		{"the probe tells whether the wall stands", (*node).wall},
		{"K4 an earlier chart's claim is taken up", (*node).earlierChart},
	} {
		if !t.Run(part.name, func(t *testing.T) {
			n.t = t
			part.do(n)
		}) {
			return
		}
	}
	slices.Sort(n.done)
	if all := slices.Sorted(slices.Values(followed)); !slices.Equal(slices.Compact(n.done), all) {
		t.Errorf("of docs/containers.md %q were followed, and not all of %q", n.done, all)
	}
}

func (n *node) installed() {
	n.follows("## Kubernetes")
	n.ready()
	n.doctor("bubblewrap")
}

func (n *node) doctor(level string) {
	n.t.Helper()
	out, _ := n.follow("## Configuration") // it fails: no forge can be reached from here
	for _, want := range []string{"The level " + level + " works", "in a file of a group that no other user is in"} {
		if !strings.Contains(out, want) {
			n.t.Errorf("doctor doesn't say %q:\n%s", want, out)
		}
	}
}

// taskUnderBubblewrap: a check may have a server on loopback, as test suites do.
func (n *node) taskUnderBubblewrap() {
	n.in(`mkdir shop
echo hello >shop/greeting.txt
writ contract init shop --govern
sed -i "s/^  attempts: .*/  attempts: 1/; s/^checks: .*/checks: [{name: said, run: [grep, welcome, greeting.txt]}, {name: served, run: [bash, served.sh], timeout: 1m}]/" shop/.writ/contract.yaml
printf "git daemon --listen=127.0.0.1 --base-path=/tmp & until echo >/dev/tcp/127.0.0.1/9418; do sleep 0.2; done" >shop/served.sh
writ forge init
writ forge user ana
writ forge user writ-bot --bot
writ forge repo ana/shop --from shop --grant ana=maintain --grant writ-bot=write
writ forge token writ-bot --file writ.token
writ forge hook http://127.0.0.1:8714/hooks/local --secret-file hook.secret`)
	n.more("")
	n.does(upgrade + "--set config.checks.loopback=true")
	n.serveForge()
	n.ends("default", "", "completed")
}

// serveForge starts the embedded forge in the pod that is there now.
func (n *node) serveForge() {
	n.t.Helper()
	n.ready()
	n.in("writ forge serve >/tmp/forge.log 2>&1 </dev/null &")
}

// ends files an issue, approves it, and waits for its end.
func (n *node) ends(builder, more, state string) {
	n.t.Helper()
	task := write(n.t, filepath.Join(n.dir, "task.md"), "# Greet more warmly\n\nSay welcome instead of hello.\n\n```writ\nallowed_files: [greeting.txt]\n"+
		"expected_outcome: greeting.txt says welcome\nbuilder: "+builder+"\n"+more+"```\n")
	n.does("kubectl -n writ exec -i deployment/writ -- tee /tmp/task.md <" + task)
	number := group(n.t, `#?([0-9]+)`, n.in("writ forge issue ana/shop /tmp/task.md --as ana"))
	n.in("writ forge label ana/shop " + number + " writ --as ana")
	shown := ""
	defer func() {
		if n.t.Failed() {
			n.t.Log(shown)
		}
	}()
	n.until("the issue ends as "+state, func() bool {
		shown, _ = n.sh("kubectl -n writ exec deployment/writ -- writ forge show ana/shop " + number + " --dir /var/lib/writ/forge")
		return strings.Contains(shown, "task_final_state: `"+state+"`")
	})
}

// memory has a builder fill the pod's memory within its own limits, where the pod
// has less than the chart asks for.
func (n *node) memory() {
	n.does("kubectl -n writ set resources deployment writ --requests=memory=2Gi --limits=memory=2Gi")
	n.serveForge()
	pod := n.ready()
	n.ends("hungry", "", "blocked")
	if out := n.does("grep -rhs --include=memory.oom_control --include=memory.events '^oom_kill [1-9]' /sys/fs/cgroup || true"); out == "" {
		n.t.Error("nothing was killed: the builder had memory enough")
	}
	if out := n.does("kubectl -n writ get " + pod + " -o jsonpath='{.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].ready}'"); out != "0 true" {
		n.t.Errorf("writ was killed and not the builder: %s restarts", out)
	}
}

func (n *node) taskUnderLandlock() {
	n.does("helm uninstall writ -n writ --wait")
	n.level("restricted")
	n.more("sandbox: {level: landlock}\n")
	n.does("helm install writ charts/writ -n writ -f values.yaml -f more.yaml --wait --timeout=120s")
	n.serveForge()
	n.doctor("landlock")
	n.ends("default", "checks: [said]\n", "completed")
}

func (n *node) secondReplica() {
	first := n.ready()
	n.does("kubectl -n writ scale deployment writ --replicas=2")
	n.until("there are two pods", func() bool { return len(n.pods()) == 2 })
	for _, pod := range n.pods() {
		if pod != first {
			n.says(pod, "state.in_use")
		}
	}
	n.does("kubectl -n writ scale deployment writ --replicas=1")
	n.ready()
}

func (n *node) configuration() {
	first := n.ready()
	n.does(upgrade + "--set config.server.sweep=1m")
	n.says(first, "read again and is in force")
	if same := n.ready(); same != first {
		n.t.Errorf("the pod was replaced for a key that needs no restart: %s, then %s", first, same)
	}
	if out, err := n.sh(upgrade + "--set config.server.swep=1m"); err == nil || !strings.Contains(out, "swep") {
		n.t.Errorf("a key that writ doesn't know: %v\n%s", err, out)
	}
	n.does(upgrade + "--set config.server.hosts={writ}")
	if same := n.ready(); same == first {
		n.t.Error("the pod was not replaced for a key that needs a restart")
	}
}

func (n *node) badImage() {
	n.does("helm upgrade writ charts/writ -n writ -f values.yaml -f more.yaml --set image.tag=v0.0.0")
	n.until("the pod can't be started", func() bool {
		out, _ := n.sh("kubectl -n writ get pods")
		return strings.Contains(out, "ImagePull")
	})
	n.does("helm rollback writ -n writ --wait --timeout=120s")
	n.ready()
}

func (n *node) restoredVolume() {
	n.does("chown -R 0:0 volume-writ && chmod -R a+rwX volume-writ")
	n.does("kubectl -n writ delete pods -l app.kubernetes.io/name=writ")
	n.until("there is one pod", func() bool { return len(n.pods()) == 1 })
	n.says(n.pods()[0], "environment.state_dir")
	n.level("baseline")
	n.follows("### A restored volume")
	n.level("restricted")
	n.ready()
}

// byHand is a wall that lets through what the NetworkPolicy allows out, as a network
// plugin that enforces would: the plain bridge doesn't.
const byHand = `ports=$(kubectl -n writ get networkpolicy writ -o jsonpath='{.spec.egress[*].ports[?(@.protocol=="TCP")].port}')
address=$(kubectl -n writ get pods -l app.kubernetes.io/name=writ -o jsonpath='{.items[0].status.podIP}')
for space in $(ip netns list | cut -d' ' -f1); do
  if ip -n "$space" address | grep -q "inet $address/"; then
    ip netns exec "$space" iptables -A OUTPUT ! -o lo -p tcp --syn -m multiport ! --dports "${ports// /,}" -j DROP
    echo "a wall but for $ports"
  fi
done`

func (n *node) wall() {
	const open = "open\n"
	if out := n.follows("### Network"); !strings.Contains(out, open) {
		n.t.Errorf("the plain bridge enforces nothing, and the probe says\n%s", out)
	}
	if out := n.does(byHand); out != "a wall but for 53 443\n" {
		n.t.Fatalf("no wall was made: %s", out)
	}
	if out := n.follows("### Network"); strings.Contains(out, open) {
		n.t.Errorf("there is a wall, and the probe says\n%s", out)
	}
}

// earlier is what matters of the StatefulSet of an earlier chart.
const earlier = `apiVersion: apps/v1
kind: StatefulSet
metadata: {name: writ}
spec:
  serviceName: writ
  selector: {matchLabels: {app.kubernetes.io/name: earlier}}
  template:
    metadata: {labels: {app.kubernetes.io/name: earlier}}
    spec:
      securityContext: {runAsUser: 10001, runAsGroup: 10001, fsGroup: 10001}
      containers:
        - name: writ
          image: {{ .Values.image.repository }}:{{ .Values.image.tag }}
          command: [sh, -c, "printf '%s' \"$CONFIG\" >/tmp/writ.yaml; exec writ serve --config /tmp/writ.yaml"]
          env:
            - {name: WRIT_LOCAL_TOKEN, value: none}
            - {name: WRIT_LOCAL_HOOK_SECRET, value: none-of-sixteen-bytes-or-more}
            - name: CONFIG
              value: >-
                {server: {state_dir: /var/lib/writ/state},
                forges: {local: {dir: /var/lib/writ/forge, url: 'http://127.0.0.1:8715', repositories: [ana/shop]}}}
          volumeMounts: [{name: state, mountPath: /var/lib/writ}]
  volumeClaimTemplates:
    - metadata: {name: state}
      spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`

// earlierChart: the installation is the one that it was, by its key.
func (n *node) earlierChart() {
	n.does("helm uninstall writ -n writ --wait; mkdir -p earlier/templates")
	n.level("privileged")
	write(n.t, filepath.Join(n.dir, "earlier/Chart.yaml"), "{apiVersion: v2, name: writ, version: 0.1.0}\n")
	write(n.t, filepath.Join(n.dir, "earlier/templates/statefulset.yaml"), earlier)
	n.does("helm install writ earlier -n writ -f values.yaml")
	key := func(pod string) (key []string) {
		n.until("there is a key", func() bool {
			out, err := n.sh("kubectl -n writ exec " + pod + " -- writ key --state-dir /var/lib/writ/state")
			key = strings.Fields(out)
			return err == nil && len(key) > 2
		})
		return key[:2] // its comment has the pod's name
	}
	before := key("writ-0")
	n.follows("### One replica")
	if after := key(n.ready()); !slices.Equal(after, before) {
		n.t.Errorf("this is another installation: its key is %s, and was %s", after, before)
	}
}
