package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// echo is a gateway that answers each connection with its first line.
func echo(t *testing.T) func(net.Listener) {
	return func(l net.Listener) {
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				line, _ := bufio.NewReader(c).ReadString('\n')
				_, _ = io.WriteString(c, "outside heard "+line)
				_ = c.Close()
			}
		}()
	}
}

// actGateway talks to the gateway, and tries what would put somebody else in its place.
func actGateway([]string) {
	names, _ := os.ReadDir("/proc/self/fd")
	for _, n := range names {
		if target, _ := os.Readlink("/proc/self/fd/" + n.Name()); strings.HasPrefix(target, "socket:") {
			fmt.Println("inherited", n.Name(), target)
		}
	}
	c, err := net.Dial("tcp", ProxyAddress)
	if err != nil {
		fmt.Println("dial:", err)
		return
	}
	fmt.Fprintln(c, "hello")
	answer, _ := bufio.NewReader(c).ReadString('\n')
	fmt.Print(answer)
	_ = c.Close()
	for _, address := range []string{ProxyAddress, "0.0.0.0:3128"} {
		if l, err := net.Listen("tcp", address); err == nil {
			fmt.Println("took", address)
			_ = l.Close()
		}
	}
	if fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0); err == nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
		if unix.Bind(fd, &unix.SockaddrInet4{Port: 3128, Addr: [4]byte{127, 0, 0, 1}}) == nil {
			fmt.Println("shares the port")
		}
	}
	processes, _ := os.ReadDir("/proc")
	for _, p := range processes {
		if name := p.Name(); name[0] >= '0' && name[0] <= '9' && name != "1" && name != "2" {
			fmt.Println("beside it runs", name)
		}
	}
	fmt.Println("gateway: end")
}

// TestGateway_IsOutside: the program reaches the gateway as a proxy on its own loopback,
// though nothing of it is inside.
func TestGateway_IsOutside(t *testing.T) {
	spec := act(t, "act-gateway")
	spec.Gateway = echo(t)
	if out := succeed(t, newSandbox(t), spec); out != "outside heard hello\ngateway: end\n" {
		t.Errorf("output:\n%s", out)
	}
}

// TestX2_NothingBesideTheGateway: with one, the sandbox still reaches nobody else, by no
// kind of socket.
func TestX2_NothingBesideTheGateway(t *testing.T) {
	args, heard := listeners(t)
	spec := act(t, "act-net", args...)
	spec.Gateway = echo(t)
	out := succeed(t, newSandbox(t), spec)
	for line := range strings.Lines(out) {
		// A datagram to one's own loopback interface is sent, to nobody.
		if strings.HasPrefix(line, "reached") && !strings.HasPrefix(line, "reached udp 127.") {
			t.Errorf("reached the host: %s", line)
		}
	}
	if !strings.Contains(out, "net: end") {
		t.Errorf("output:\n%s", out)
	}
	if len(heard) != 0 {
		t.Errorf("the host heard from inside: %s", <-heard)
	}
}

// TestGateway_NotWithoutANamespace: where the program shares the host's network nobody
// could hold it to a gateway.
func TestGateway_NotWithoutANamespace(t *testing.T) {
	for _, s := range []Sandbox{newLandlocked(t), NewNone(Config{})} {
		spec := script(t, "touch ran")
		spec.Gateway = echo(t)
		_, err := s.Start(t.Context(), spec)
		var e *Error
		if !errors.As(err, &e) || e.Code != CodeSpec || !strings.Contains(e.Remedy, "egress") || !strings.Contains(e.Msg, s.Name()) {
			t.Errorf("%s: error = %v", s.Name(), err)
		}
	}
}

// TestGateway_NoProgramWithoutIt: where its listener doesn't come out the program is ended.
func TestGateway_NoProgramWithoutIt(t *testing.T) {
	outer, inner, err := descriptorWay()
	if err != nil {
		t.Fatal(err)
	}
	_ = inner.Close() // nobody sends anything
	l := &launch{spec: Spec{Gateway: func(net.Listener) { t.Error("a listener came from nowhere") }}, gateway: outer}
	if l.startGateway() {
		t.Error("it goes on without a listener")
	}
}
