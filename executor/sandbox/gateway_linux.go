package sandbox

import (
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// The inner stage opens the gateway's listener, in the sandbox's network namespace, and
// passes it on to writ, which accepts there: a socket belongs to the namespace that it
// was made in, whoever has its descriptor. So nothing of the gateway runs inside, where
// the program could meddle with it, and there is no path to it either.

// gatewayBacklog bounds connections that wait to be accepted.
const gatewayBacklog = 128

// openGateway makes the way over which the listener comes.
func (l *launch) openGateway(a *arguments, c *initConfig) (err error) {
	if l.spec.Gateway == nil {
		return nil
	}
	var inner *os.File
	if l.gateway, inner, err = descriptorWay(); err == nil {
		a.extra = append(a.extra, inner)
		c.Proxy = 2 + len(a.extra)
	}
	return err
}

// openGateway is that of the inner stage.
func (c initConfig) openGateway() error {
	if c.Proxy == 0 {
		return nil
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	at := netip.MustParseAddrPort(ProxyAddress)
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}); err != nil {
		return err
	}
	if err := unix.Listen(fd, gatewayBacklog); err != nil {
		return err
	}
	return sendFD(c.Proxy, fd)
}
