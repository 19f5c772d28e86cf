package gateway

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/crypto/cryptobyte"
)

// connectTo is a request for a tunnel.
func connectTo(target string) string { return "CONNECT " + target + " HTTP/1.1\r\n\r\n" }

// TestX11_DNSAsAChannel: a name that isn't allowed is never looked up, so that its
// labels carry nothing, and one that is is looked up once and as a whole.
func TestX11_DNSAsAChannel(t *testing.T) {
	o := newOrigin(t, true, hello)
	g := open(t, o.lists("example.com"), generous)
	g.refused(connectTo(o.at("c2VjcmV0.evil.org")), CodeHost)
	g.refused(connectTo(o.at("c2VjcmV0.example.com")), CodeHost)
	g.refused(connectTo("example.com:53"), CodePort)
	g.refused(connectTo("example.com:853"), CodePort)
	g.refused(connectTo(o.at(strings.Repeat("a", 64)+".example.com")), CodeHostInvalid)
	g.refused(connectTo(o.at(strings.Repeat("a.", 120)+"example.com.com")), CodeHostInvalid)
	g.refused("GET http://c2VjcmV0.evil.org/ HTTP/1.1\r\n\r\n", CodeHost)
	if q := g.liar.questions(); len(q) != 0 {
		t.Errorf("looked up %q", q)
	}
	shut(g.tunnel(o.at("example.com")))
	if q := g.liar.questions(); len(q) != 1 || q[0] != "example.com." {
		t.Errorf("looked up %q", q)
	}
}

func TestX12_OtherPorts(t *testing.T) {
	o := newOrigin(t, true, hello)
	lists := o.closed("example.com")
	for _, l := range [][]Rule{lists.Builder, lists.World, lists.Contract} {
		l[0].Ports = nil
	}
	g := open(t, lists, generous)
	for _, port := range []string{"22", "25", "53", "80", "8443", "444"} {
		g.refused(connectTo("example.com:"+port), CodePort)
	}
	g.refused(connectTo(o.at("example.com")), CodePort)
	g.refused("GET http://example.com/ HTTP/1.1\r\n\r\n", CodePort)
	for _, port := range []string{"", "0", "65979", "0443", "+443", "-1", "443x", " 443", "0x1bb", "https"} {
		g.refused(connectTo("example.com:"+port), CodeRequest)
	}
	g.refused(connectTo("example.com"), CodeRequest)
	if o.connections() != 0 {
		t.Error("the server was reached")
	}
}

// TestX13_AddressesAsNames: every spelling of an address, asked for or named in TLS.
func TestX13_AddressesAsNames(t *testing.T) {
	o := newOrigin(t, true, hello)
	g := open(t, o.lists("example.com"), generous)
	for _, host := range []string{
		"127.0.0.1", "127.1", "127.0.1", "2130706433", "0177.0.0.1", "017700000001", "0x7f.0.0.1", "0x7f000001", "0X7F.1",
		"127.0.0.1.", "0x7f.1.", "127.0.0.0x1", "1.example.0x", "127.0.0.01", "00127.0.0.1", "256.256.256.256", "8.8.8.8",
		"127。0。0。1", "１２７.0.0.1",
	} {
		if d := mustDecide(t, o.lists("example.com"), host); d.Code != CodeLiteral {
			t.Errorf("%s: %+v", host, d)
		}
		if strings.Trim(host, "0123456789abcdefxXF.mpl") == "" {
			g.refused(connectTo(host+":443"), CodeLiteral)
			g.refused("GET http://"+host+"/ HTTP/1.1\r\n\r\n", CodeLiteral)
		}
	}
	for name, code := range map[string]string{"127.0.0.1": CodeNoName, "": CodeNoName} {
		c := g.tunnel(o.at("example.com"))
		err := tls.Client(c, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake()
		if err == nil || !strings.Contains(err.Error(), "access denied") {
			t.Errorf("TLS for %q: %v", name, err)
		}
		g.want(Denied, code)
	}
	if len(o.requests()) != 0 {
		t.Error("the server was asked")
	}
}

func mustDecide(t *testing.T, l Lists, host string) Decision {
	t.Helper()
	d, err := NewDecider(l)
	if err != nil {
		t.Fatal(err)
	}
	return d.Decide(Ask{Host: host, Port: 443})
}

// TestX14_ThisMachine: something listens here, and a name leads to it.
func TestX14_ThisMachine(t *testing.T) {
	o := newOrigin(t, true, hello)
	g := open(t, o.closed("example.com"), generous)
	for _, a := range []string{"127.0.0.1", "127.0.0.2", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1", "64:ff9b::7f00:1"} {
		g.liar.answers["example.com"] = [][]netip.Addr{addresses(a)}
		r := g.refused(connectTo(o.at("example.com")), CodeAddress)
		if a == "127.0.0.1" && !strings.HasSuffix(r.Detail, "this machine") {
			t.Errorf("%s: %+v", a, r)
		}
	}
	if o.connections() != 0 {
		t.Error("the server was reached")
	}
	for _, host := range []string{"localhost", "host"} {
		g.refused(connectTo(host+":443"), CodeHostInvalid)
	}
	own := addresses("8.8.4.4", "2600::4")
	for _, a := range []string{"8.8.4.4", "::ffff:8.8.4.4", "64:ff9b::808:404", "2600::4"} {
		if _, err := reachable(netip.MustParseAddr(a), own, nil); err == nil {
			t.Errorf("%s is a public address of this machine", a)
		}
	}
	if a, err := reachable(netip.MustParseAddr("::ffff:8.8.8.8"), own, nil); err != nil || a.String() != "8.8.8.8" {
		t.Errorf("a public address: %s, %v", a, err)
	}
}

// TestX15_Metadata: not even where the operator opened the network around it.
func TestX15_Metadata(t *testing.T) {
	o := newOrigin(t, true, hello)
	lists := o.lists("example.com")
	for _, l := range [][]Rule{lists.Builder, lists.World} {
		l[0].Addresses = append(prefixes("100.64.0.0/10", "fc00::/7"), loopback...)
	}
	g := open(t, lists, generous)
	for _, a := range []string{
		"169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254",
		"::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "64:ff9b::a83f:8110",
	} {
		g.liar.answers["example.com"] = [][]netip.Addr{addresses(a)}
		if r := g.refused(connectTo(o.at("example.com")), CodeAddress); !strings.Contains(r.Detail, "metadata") {
			t.Errorf("%s: %+v", a, r)
		}
	}
	g.refused(connectTo("metadata.google.internal:80"), CodeHost)
}

// TestX16_RelaysAndChains: a tunnel carries TLS, no second proxy and nothing else.
func TestX16_RelaysAndChains(t *testing.T) {
	relay, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan []byte, 10)
	go func() {
		defer close(got)
		for {
			c, err := relay.Accept()
			if err != nil {
				return
			}
			sent, _ := io.ReadAll(c)
			shut(c)
			got <- sent
		}
	}()
	o := &origin{port: portOf(t, relay)}
	g := open(t, o.lists("example.com"), generous)
	tries := []string{
		connectTo("evil.org:443"), "SSH-2.0-OpenSSH_9.9\r\n", "\x05\x01\x00", "\x80\x2e\x01\x03\x01",
		"GET / HTTP/1.1\r\nHost: evil.org\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\x17\x03\x03\x00\x01x",
		"\x16\x03\x01\x00\x04\x02\x00\x00\x00", "\x16\x03\x01\xff\xff\x01\x00\xff\xfb",
	}
	for _, first := range tries {
		c := g.tunnel(o.at("example.com"))
		fmt.Fprint(c, first)
		_ = c.(*net.UnixConn).CloseWrite()
		if answer, _ := io.ReadAll(c); string(answer) != alert {
			t.Errorf("%.20q is answered with %q", first, answer)
		}
		if r := g.want(Denied, CodeNotTLS); r.Up != 0 {
			t.Errorf("%.20q: %+v", first, r)
		}
		if sent := <-got; len(sent) != 0 {
			t.Errorf("%.20q went outside", sent)
		}
	}
	// What comes right behind the request is looked at, too.
	g.say(connectTo(o.at("example.com")) + connectTo("evil.org:443"))
	if r := g.want(Denied, CodeNotTLS); r.Up != 0 || len(<-got) != 0 {
		t.Errorf("pipelined: %+v", r)
	}
	shut(relay)
	<-got
}

// TestX17_HeaderSmuggling: what two readers may read differently isn't read at all.
func TestX17_HeaderSmuggling(t *testing.T) {
	o := newOrigin(t, false, hello)
	g := open(t, o.lists("example.com", "example.org"), generous)
	at := o.at("example.com")
	line := "POST http://" + at + "/ HTTP/1.1\r\n"
	for _, head := range []string{
		line + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n",
		line + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n",
		line + "Content-Length:\r\nTransfer-Encoding: chunked\r\n\r\n",
		line + "Content-Length: 4\r\nContent-Length: 4\r\n\r\n",
		line + "Content-Length: 4\r\ncontent-length: 5\r\n\r\n",
		line + "Content-Length: 4, 4\r\n\r\n",
		line + "Content-Length: +4\r\n\r\n",
		line + "Content-Length: -4\r\n\r\n",
		line + "Content-Length: 0x4\r\n\r\n",
		line + "Content-Length:\r\n\r\n",
		line + "Content-Length: 99999999999999999999\r\n\r\n",
		line + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
		line + "Transfer-Encoding: identity\r\n\r\n",
		line + "Transfer-Encoding: gzip, chunked\r\n\r\n",
		line + "Transfer-Encoding: xchunked\r\n\r\n",
		line + "Transfer-Encoding:\x0bchunked\r\n\r\n",
		line + "Transfer-Encoding : chunked\r\n\r\n",
		line + " Transfer-Encoding: chunked\r\n\r\n",
		line + "A: b\r\n Transfer-Encoding: chunked\r\n\r\n",
		line + "A: b\nTransfer-Encoding: chunked\r\n\r\n",
		line + "A: b\rTransfer-Encoding: chunked\r\n\r\n",
		line + "A: b\x00\r\n\r\n",
		line + "A\x00: b\r\n\r\n",
		line + ": b\r\n\r\n",
		line + "no colon\r\n\r\n",
		line + "A: b\r\n\n",
		line + "Host: " + at + "\r\nHost: " + at + "\r\n\r\n",
		line + "Connection: close\r\nConnection: keep-alive\r\n\r\n",
		line + "Expect: 200-ok\r\n\r\n",
		"POST http://" + at + "/ HTTP/1.0\r\n\r\n",
		"POST http://" + at + "/ HTTP/2.0\r\n\r\n",
		"POST http://" + at + "/ HTTP/1.1 \r\n\r\n",
		"POST  http://" + at + "/ HTTP/1.1\r\n\r\n",
		"POST http://" + at + "/\tx HTTP/1.1\r\n\r\n",
		"POST http://user:secret@" + at + "/ HTTP/1.1\r\n\r\n",
		"POST https://" + at + "/ HTTP/1.1\r\n\r\n",
		"POST ftp://" + at + "/ HTTP/1.1\r\n\r\n",
		"POST http://" + at + "/#evil HTTP/1.1\r\n\r\n",
		"POST http:" + at + " HTTP/1.1\r\n\r\n",
		"POST //" + at + "/ HTTP/1.1\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: " + at + "\r\n\r\n",
		"CONNECT " + at + " HTTP/1.1\r\nContent-Length: 4\r\n\r\n",
		"CONNECT " + at + " HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
		"CONNECT http://" + at + "/ HTTP/1.1\r\n\r\n",
		"CONNECT /" + at + " HTTP/1.1\r\n\r\n",
		"\r\n" + line + "\r\n",
		line + "A: " + strings.Repeat("b", maxHead) + "\r\n\r\n",
		line + strings.Repeat("A: b\r\n", maxHead/6) + "\r\n",
		line,
	} {
		c := g.dial()
		fmt.Fprint(c, head)
		_ = c.(*net.UnixConn).CloseWrite()
		if answer, _ := io.ReadAll(c); !bytes.Contains(answer, []byte(" 400 ")) && !bytes.Contains(answer, []byte(" 403 ")) {
			t.Errorf("%.120q is answered with %q", head, answer)
		}
		if r := g.record(); r.Verdict != Denied || strings.Contains(r.Host, "secret") {
			t.Errorf("%.120q: %+v", head, r)
		}
	}
	if n := o.connections(); n != 0 {
		t.Fatalf("the server got %d connections", n)
	}
	// A second request behind the first isn't served, on either side.
	second := "GET http://" + o.at("example.org") + "/second HTTP/1.1\r\n\r\n"
	answer := g.say("POST http://" + at + "/first HTTP/1.1\r\nContent-Length: 4\r\nConnection: x-mine, keep-alive\r\nX-Mine: 1\r\nKeep-Alive: 1\r\n" +
		"Proxy-Connection: keep-alive\r\nProxy-Authorization: Basic c2VjcmV0\r\nTE: trailers\r\nTrailer: X\r\nX-Other: 2\r\n\r\nbody" + second)
	if strings.Count(answer, "HTTP/1.1") != 1 || !strings.HasSuffix(answer, "hello") {
		t.Errorf("answered %q", answer)
	}
	g.want(Allowed, "")
	got := o.requests()
	if len(got) != 1 || got[0].URL.Path != "/first" || got[0].ContentLength != 4 {
		t.Fatalf("the server got %v", got)
	}
	want := http.Header{"X-Other": {"2"}, "Content-Length": {"4"}, "Connection": {"close"}}
	if fmt.Sprint(got[0].Header) != fmt.Sprint(want) || len(got[0].Trailer) != 0 {
		t.Errorf("the server got %v, want %v", got[0].Header, want)
	}
}

// TestX18_IPv6AndMapped: no IPv6 form carries what IPv4 may not.
func TestX18_IPv6AndMapped(t *testing.T) {
	o := newOrigin(t, true, hello)
	g := open(t, o.closed("example.com"), generous)
	for _, host := range []string{
		"[::1]:443", "::1:443", "[::ffff:127.0.0.1]:443", "[::127.0.0.1]:443", "[fe80::1%25eth0]:443", "[64:ff9b::7f00:1]:443",
		"[2002:7f00:1::]:443", "[::1]", "[2600::1]:443", "[0:0:0:0:0:0:0:1]:443",
	} {
		c := g.say(connectTo(host))
		if r := g.record(); r.Verdict != Denied || !strings.Contains(c, r.Code) {
			t.Errorf("%s: %+v, %q", host, r, c)
		}
	}
	for _, a := range []string{
		"::", "::1", "::127.0.0.1", "::ffff:10.0.0.1", "::ffff:192.168.1.1", "::ffff:0.0.0.0", "fe80::1", "fec0::1", "fc00::1", "fd12::1", "ff02::1",
		"64:ff9b::a00:1", "64:ff9b::6440:1", "64:ff9b:1::a00:1", "64:ff9b:1::808:808", "2002:a00:1::1", "2002:808:808::1", "2600::5efe:7f00:1", "2600:1:2:3:200:5efe:a00:1", "2001::1", "2001:2::1", "2001:20::1",
		"2001:db8::1", "3fff::1", "100::1", "5f00::1", "4000::1", "fe80::1%eth0", "2600::1%eth0",
		"0.0.0.0", "10.1.2.3", "100.64.0.1", "100.127.255.254", "127.0.0.9", "169.254.1.1", "172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.2.1",
		"192.88.99.1", "192.168.0.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255",
	} {
		if _, err := reachable(netip.MustParseAddr(a), nil, nil); err == nil || codeOf(err) != CodeAddress {
			t.Errorf("%s: %v", a, err)
		}
	}
	for _, a := range []string{"8.8.8.8", "::ffff:8.8.8.8", "64:ff9b::808:808", "2600::1", "2600::5eff:7f00:1", "2600::100:5efe:7f00:1", "2001:4860::8888", "172.32.0.1", "100.128.0.1"} {
		if _, err := reachable(netip.MustParseAddr(a), nil, nil); err != nil {
			t.Errorf("%s: %v", a, err)
		}
	}
	if _, err := reachable(netip.Addr{}, nil, nil); err == nil {
		t.Error("no address at all is taken")
	}
	ten := prefixes("10.0.0.0/8")
	for name, opened := range map[string][][]netip.Prefix{"nobody": nil, "the builder's": {ten, nil}, "the world's": {nil, ten}} {
		if _, err := reachable(netip.MustParseAddr("10.0.0.1"), nil, opened); err == nil {
			t.Errorf("opened by %s list alone", name)
		}
	}
	if _, err := reachable(netip.MustParseAddr("::ffff:10.0.0.1"), nil, [][]netip.Prefix{ten, ten}); err != nil {
		t.Errorf("opened by both: %v", err)
	}
	if o.connections() != 0 {
		t.Error("the server was reached")
	}
}

// TestX19_NULAndCase: one name has one form, and no byte cuts it short.
func TestX19_NULAndCase(t *testing.T) {
	o := newOrigin(t, true, hello)
	lists := o.lists("example.com", "*.example.com")
	g := open(t, lists, generous)
	for _, host := range []string{
		"example.com\x00.evil.org", "evil.org\x00.example.com", "evil.org\x00", "\x00example.com", "example.com\x01", "example.com\x7f", "example.com\t",
	} {
		g.refused(connectTo(o.at(host)), CodeRequest)
		g.refused("GET http://"+o.at(host)+"/ HTTP/1.1\r\n\r\n", CodeRequest)
	}
	d, err := NewDecider(lists)
	if err != nil {
		t.Fatal(err)
	}
	for host, code := range map[string]string{
		"EXAMPLE.com": "", "Example.Com.": "", "ｅｘａｍｐｌｅ.com": "", "example。com": "", "WWW.EXAMPLE.COM": "",
		"example.com..": CodeHostInvalid, ".example.com": CodeHostInvalid, "a..example.com": CodeHostInvalid, "": CodeHostInvalid, ".": CodeHostInvalid,
		"evil.org\x00.example.com": CodeHostInvalid, "evil.org#.example.com": CodeHostInvalid, "evil.org/.example.com": CodeHostInvalid,
		"evil.org?.example.com": CodeHostInvalid, "evil.org\\.example.com": CodeHostInvalid, "evil.org .example.com": CodeHostInvalid,
		"evil@www.example.com": CodeHostInvalid, "a_b.example.com": CodeHostInvalid, "-a.example.com": CodeHostInvalid, "*.example.com": CodeHostInvalid,
		"evil.org%00.example.com": CodeLiteral, "a\u202eb.example.com": CodeHostInvalid, "\xff.example.com": CodeHostInvalid, "xn--a.example.com": CodeHostInvalid,
		"еxample.com": CodeHost, // its first letter is Cyrillic
	} {
		if got := d.Decide(Ask{Host: host, Port: o.port}); got.Code != code {
			t.Errorf("%q: %+v, want %q", host, got, code)
		}
	}
	// Case is no other name in TLS either.
	c := tls.Client(g.tunnel(o.at("EXAMPLE.com.")), &tls.Config{ServerName: "eXample.COM", InsecureSkipVerify: true})
	if err := c.Handshake(); err != nil {
		t.Error(err)
	}
	shut(c)
	if r := g.record(); r.Verdict != Allowed || r.Host != "example.com" {
		t.Errorf("recorded %+v", r)
	}
}

// TestX20_DomainFronting: what a request says of its host twice must be the same.
func TestX20_DomainFronting(t *testing.T) {
	o := newOrigin(t, true, hello)
	g := open(t, o.lists("example.com", "www.example.com"), generous)
	for _, tt := range []struct{ name, code string }{
		{"evil.org", CodeMismatch}, {"www.example.com", CodeMismatch}, {"com", CodeMismatch}, {"example.com.evil.org", CodeMismatch}, {"", CodeNoName},
	} {
		c := g.tunnel(o.at("example.com"))
		if err := tls.Client(c, &tls.Config{ServerName: tt.name, InsecureSkipVerify: true}).Handshake(); err == nil || !strings.Contains(err.Error(), "access denied") {
			t.Errorf("TLS for %q: %v", tt.name, err)
		}
		if r := g.want(Denied, tt.code); r.Up != 0 {
			t.Errorf("%q: %+v", tt.name, r)
		}
	}
	for _, extension := range []uint16{encryptedHello, encryptedName} {
		c := g.tunnel(o.at("example.com"))
		if _, err := c.Write(withExtension(t, "example.com", extension)); err != nil {
			t.Fatal(err)
		}
		_, _ = io.ReadAll(c)
		if r := g.want(Denied, CodeEncrypted); r.Up != 0 {
			t.Errorf("%x: %+v", extension, r)
		}
	}
	// What comes right behind the request is looked at, too.
	g.say(connectTo(o.at("example.com")) + string(withExtension(t, "evil.org", 0x7a7a)))
	if r := g.want(Denied, CodeMismatch); r.Up != 0 {
		t.Errorf("pipelined: %+v", r)
	}
	// The same ClientHello with an extension that nobody knows goes through.
	c := g.tunnel(o.at("example.com"))
	if _, err := c.Write(withExtension(t, "example.com", 0x7a7a)); err != nil {
		t.Fatal(err)
	}
	if kind, err := bufio.NewReader(c).ReadByte(); err != nil || kind != 0x16 {
		t.Errorf("the server answers %x, %v", kind, err)
	}
	shut(c)
	g.record()
	for _, field := range []string{"evil.org", "www.example.com", o.at("www.example.com"), "example.com:1", "127.0.0.1", "a@" + o.at("example.com"), "example.com, evil.org"} {
		g.refused("GET http://"+o.at("example.com")+"/ HTTP/1.1\r\nHost: "+field+"\r\n\r\n", CodeMismatch)
		g.refused("CONNECT "+o.at("example.com")+" HTTP/1.1\r\nHost: "+field+"\r\n\r\n", CodeMismatch)
	}
	if len(o.requests()) != 0 {
		t.Error("the server was asked")
	}
}

// withExtension is a ClientHello with one more, empty extension.
func withExtension(t *testing.T, name string, extension uint16) []byte {
	t.Helper()
	var sent bytes.Buffer
	client := tls.Client(&writes{recorder{r: strings.NewReader("")}, &sent}, &tls.Config{ServerName: name})
	_ = client.HandshakeContext(context.Background())
	b := append(sent.Bytes(), byte(extension>>8), byte(extension), 0, 0)
	s := cryptobyte.String(b[5+4+2+32:])
	var skipped cryptobyte.String
	if !s.ReadUint8LengthPrefixed(&skipped) || !s.ReadUint16LengthPrefixed(&skipped) || !s.ReadUint8LengthPrefixed(&skipped) {
		t.Fatal("no ClientHello")
	}
	longer := func(at int) {
		n := int(b[at])<<8 + int(b[at+1]) + 4
		b[at], b[at+1] = byte(n>>8), byte(n)
	}
	longer(3)               // the record
	longer(7)               // the message
	longer(len(b) - len(s)) // the extensions
	return b
}

// writes keeps what is written.
type writes struct {
	recorder
	to *bytes.Buffer
}

func (w *writes) Write(p []byte) (int, error) { return w.to.Write(p) }

// TestX21_UpgradesAndLongStreams: no other protocol, and no stream beyond the limits.
func TestX21_UpgradesAndLongStreams(t *testing.T) {
	t.Run("upgrade asked for", func(t *testing.T) {
		o := newOrigin(t, false, hello)
		g := open(t, o.lists("example.com"), generous)
		line := "GET http://" + o.at("example.com") + "/ HTTP/1.1\r\n"
		for _, fields := range []string{
			"Connection: Upgrade\r\nUpgrade: websocket\r\n", "Connection: keep-alive, uPgrade\r\n", "Upgrade: h2c\r\n", "Upgrade: websocket\r\nUpgrade: h2c\r\n",
		} {
			g.refused(line+fields+"\r\n", CodeUpgrade)
		}
		g.refused("CONNECT "+o.at("example.com")+" HTTP/1.1\r\nUpgrade: websocket\r\n\r\n", CodeUpgrade)
		if o.connections() != 0 {
			t.Error("the server was reached")
		}
	})
	t.Run("upgrade answered", func(t *testing.T) {
		o := newOrigin(t, false, func(w http.ResponseWriter, _ *http.Request) {
			c, _, _ := w.(http.Hijacker).Hijack()
			defer c.Close()
			fmt.Fprint(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello")
		})
		g := open(t, o.lists("example.com"), generous)
		g.refused("GET http://"+o.at("example.com")+"/ HTTP/1.1\r\n\r\n", CodeUpgrade)
	})
	endless := func(w http.ResponseWriter, _ *http.Request) {
		for _, err := fmt.Fprint(w, "x"); err == nil; _, err = w.Write(make([]byte, 4096)) {
			w.(http.Flusher).Flush()
		}
	}
	t.Run("bytes from the outside", func(t *testing.T) {
		for _, secure := range []bool{true, false} {
			o := newOrigin(t, secure, endless)
			limits := generous
			limits.Down = 1 << 20
			g := open(t, o.lists("example.com"), limits)
			n := drain(t, g, o)
			if r := g.want(Cut, CodeDown); n > limits.Down || r.Down < limits.Down {
				t.Errorf("%d bytes came in: %+v", n, r)
			}
			if answer := g.say(connectTo(o.at("example.com"))); !strings.Contains(answer, CodeDown) {
				t.Errorf("the next one is answered with %q", answer)
			}
			g.want(Cut, CodeDown)
		}
	})
	t.Run("bytes to the outside", func(t *testing.T) {
		for _, secure := range []bool{true, false} {
			o := newOrigin(t, secure, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
			limits := generous
			limits.Up = 1 << 20
			g := open(t, o.lists("example.com"), limits)
			answer, err := g.client(o).Post(o.url("example.com"), "text/plain", &zeros{left: 64 * limits.Up})
			if err == nil {
				_ = answer.Body.Close()
			}
			if errors.Is(err, errTaken) {
				t.Error("what doesn't go out any more is still taken")
			}
			if r := g.want(Cut, CodeUp); r.Up > limits.Up || r.Up == 0 {
				t.Errorf("recorded %+v", r)
			}
		}
	})
	t.Run("time", func(t *testing.T) {
		o := newOrigin(t, true, endless)
		g := open(t, o.lists("example.com"), generous)
		c := g.tunnel(o.at("example.com"))
		s := tls.Client(c, &tls.Config{ServerName: "example.com", InsecureSkipVerify: true})
		fmt.Fprint(s, "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n")
		if _, err := s.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		g.cancel(errTime) // as the run's timer does
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Error(err)
		}
		g.want(Cut, CodeTime)
	})
}

// TestX21_CutOffIsAnError: an answer whose end is that of its connection doesn't look whole
// where a limit cuts it off.
func TestX21_CutOffIsAnError(t *testing.T) {
	for _, secure := range []bool{true, false} {
		o := newOrigin(t, secure, func(w http.ResponseWriter, _ *http.Request) {
			c, _, _ := w.(http.Hijacker).Hijack()
			defer c.Close()
			for _, err := fmt.Fprint(c, "HTTP/1.1 200 OK\r\n\r\n"); err == nil; _, err = c.Write(make([]byte, 4096)) {
			}
		})
		limits := generous
		limits.Down = 1 << 20
		l, err := net.Listen("tcp", "127.0.0.1:0") // as in a sandbox
		if err != nil {
			t.Fatal(err)
		}
		g := openAt(t, l, o.lists("example.com"), limits)
		answer, err := g.client(o).Get(o.url("example.com"))
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, answer.Body); err == nil {
			t.Errorf("over TLS %t: %d bytes look whole", secure, n)
		}
		_ = answer.Body.Close()
		g.want(Cut, CodeDown)
	}
}

func (o *origin) url(host string) string {
	scheme, _, _ := strings.Cut(o.URL, ":")
	return scheme + "://" + o.at(host)
}

// drain reads an answer to its end, and gives how long it is.
func drain(t *testing.T, g *gate, o *origin) int64 {
	t.Helper()
	answer, err := g.client(o).Get(o.url("example.com"))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	n, err := io.Copy(io.Discard, answer.Body)
	if err == nil {
		t.Error("the answer is cut off and looks whole")
	}
	return n
}

var errTaken = errors.New("all was taken")

// zeros is a body that nobody should read to its end.
type zeros struct{ left int64 }

func (z *zeros) Read(p []byte) (int, error) {
	if z.left -= int64(len(p)); z.left < 0 {
		return 0, errTaken
	}
	clear(p)
	return len(p), nil
}

// TestX22_AnotherAnswer: a name is looked up once for each connection, all of its
// addresses are looked at, and what was looked at is what is dialled.
func TestX22_AnotherAnswer(t *testing.T) {
	o := newOrigin(t, true, hello)
	g := open(t, o.lists("example.com"), generous)
	// 127.0.0.1 serves; what a second question would lead to is refused.
	g.liar.answers["example.com"] = [][]netip.Addr{addresses("127.0.0.1"), addresses("10.0.0.1"), addresses("127.0.0.1", "10.0.0.1"), addresses("10.0.0.1", "127.0.0.1")}
	shut(g.tunnel(o.at("example.com")))
	if r := g.want(Denied, CodeNotTLS); r.Address != "127.0.0.1" {
		t.Errorf("recorded %+v", r)
	}
	if q := g.liar.questions(); len(q) != 1 {
		t.Errorf("looked up %q", q)
	}
	for n := 2; n <= 4; n++ {
		if r := g.refused(connectTo(o.at("example.com")), CodeAddress); r.Address != "" {
			t.Errorf("recorded %+v", r)
		}
		if q := g.liar.questions(); len(q) != n {
			t.Errorf("looked up %q", q)
		}
	}
	// The next address is tried where the first has nobody, and no other.
	g.liar.answers["example.com"] = [][]netip.Addr{addresses("127.0.0.9", "127.0.0.1")}
	shut(g.tunnel(o.at("example.com")))
	if r := g.record(); r.Address != "127.0.0.1" {
		t.Errorf("recorded %+v", r)
	}
}
