package gateway

import (
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

const value = "Bearer s3cret-of-the-operator"

// withCredential are lists in which the operator has one for the first host.
func (o *origin) withCredential(hosts ...string) Lists {
	l := o.lists(hosts...)
	l.Builder[0].Credential = &Credential{Header: "Authorization", Value: value}
	return l
}

// believing has a gateway believe a server's certificate.
func believing(o *origin) func(*Server) {
	return func(s *Server) {
		s.c.Roots = x509.NewCertPool()
		s.c.Roots.AddCert(o.Certificate())
	}
}

// spellings are ways in which clients say who they are.
var spellings = []string{"Authorization", "AUTHORIZATION", "X-Authorization", "X_Authorization", "X-Api-Key", "x_api_key", "Api-Key", "ApiKey", "X-Goog-Api-Key",
	"X-Auth-Token", "Private-Token", "Job-Token", "Deploy-Token", "X-Access.Token", "X-Amz-Security-Token", "Cookie", "X-Jfrog-Art-Api", "Ocp-Apim-Session"}

// TestReverse_TheGatewaysCredentialAndNoOther: what the inside says of itself is taken
// off, in every spelling, and what the gateway sets arrives over TLS.
func TestReverse_TheGatewaysCredentialAndNoOther(t *testing.T) {
	o := newOrigin(t, true, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Set-Cookie", "account=7")
		w.Header().Set("Alt-Svc", `h3=":443"`)
		fmt.Fprintf(w, "%s %s %s", r.Method, r.URL, body)
	})
	g := open(t, o.withCredential("example.com"), generous, believing(o))
	req, err := http.NewRequest("POST", "http://"+o.at("example.com")+"/a%2fb?api_key=inside&q=1&key=inside&access%5Ftoken=inside&k%65y=inside&author=x", strings.NewReader("a body"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range spellings {
		req.Header[name] = []string{"inside"}
	}
	req.Header.Set("Accept", "inside-may-say")
	answer, err := g.client(o).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if want := "POST /a%2fb?q=1&author=x a body"; string(body) != want {
		t.Errorf("answer %q, want %q", body, want)
	}
	if answer.Header.Get("Set-Cookie") != "" || answer.Header.Get("Alt-Svc") != "" {
		t.Errorf("came inside: %v", answer.Header)
	}
	got := o.requests()
	if len(got) != 1 || got[0].TLS == nil || got[0].Host != o.at("example.com") || got[0].Header.Get("Accept") != "inside-may-say" {
		t.Fatalf("the outside was asked %+v", got)
	}
	for name, values := range got[0].Header {
		if text := strings.Join(values, ","); text == "inside" || (text == value) != (name == "Authorization") {
			t.Errorf("the outside got %s: %s", name, text)
		}
	}
	if r := g.want(Allowed, ""); r.Mode != Reverse || r.Host != "example.com" || r.Port != o.port || r.Up == 0 || strings.Contains(fmt.Sprintf("%+v", r), "s3cret") {
		t.Errorf("recorded %+v", r)
	}
}

// TestReverse_AmbiguousQuery: a query in which two readers find different names is refused.
func TestReverse_AmbiguousQuery(t *testing.T) {
	o := newOrigin(t, true, hello)
	g := open(t, o.withCredential("example.com"), generous, believing(o))
	for _, query := range []string{"a=1;api_key=2", "%zz=1"} {
		g.refused(fmt.Sprintf("GET http://%s/?%s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", o.at("example.com"), query), CodeRequest)
	}
	if len(o.requests()) > 0 {
		t.Error("the outside was asked")
	}
}

// TestReverse_NotOnPlaintext: nothing of a request goes to a server that speaks no TLS.
func TestReverse_NotOnPlaintext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer shut(l)
	heard := make(chan string, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer shut(c)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		text, _ := io.ReadAll(c)
		heard <- string(text)
	}()
	o := &origin{port: portOf(t, l)}
	g := open(t, o.withCredential("example.com"), generous)
	if answer := g.say(fmt.Sprintf("GET http://%s/ HTTP/1.1\r\nHost: %[1]s\r\n\r\n", o.at("example.com"))); !strings.Contains(answer, CodeUpstream) {
		t.Errorf("answered %q", answer)
	}
	g.want(Failed, CodeUpstream)
	if text := <-heard; strings.Contains(text, "s3cret") || strings.Contains(text, "GET ") {
		t.Errorf("the outside heard %q", text)
	}
}

// TestReverse_AnotherHostsCertificate: who can't show that it is the host gets nothing.
func TestReverse_AnotherHostsCertificate(t *testing.T) {
	o := newOrigin(t, true, hello)
	for name, change := range map[string]func(*Server){"another host's": believing(o), "nobody's": func(*Server) {}} {
		host := "example.org" // the certificate is of example.com
		if name == "nobody's" {
			host = "example.com"
		}
		g := open(t, o.withCredential(host), generous, change)
		g.say(fmt.Sprintf("GET http://%s/ HTTP/1.1\r\nHost: %[1]s\r\n\r\n", o.at(host)))
		g.want(Failed, CodeUpstream)
		if len(o.requests()) > 0 {
			t.Errorf("%s: the outside was asked", name)
		}
	}
}

// TestReverse_NotOnARedirect: the credential doesn't follow one to another host, and one
// to the same host leads through the gateway again.
func TestReverse_NotOnARedirect(t *testing.T) {
	other := newOrigin(t, false, hello)
	o := newOrigin(t, true, nil)
	o.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/same":
			http.Redirect(w, r, "https://"+r.Host+"/other", http.StatusFound)
		case "/other":
			http.Redirect(w, r, "http://"+other.at("other.example.org")+"/", http.StatusFound)
		}
	})
	lists := o.withCredential("example.com")
	more := other.lists("other.example.org")
	lists.Builder, lists.World, lists.Contract = append(lists.Builder, more.Builder...), append(lists.World, more.World...), append(lists.Contract, more.Contract...)
	g := open(t, lists, generous, believing(o))
	if body := get(t, g.client(o), "http://"+o.at("example.com")+"/same"); body != "hello" {
		t.Errorf("body %q", body)
	}
	got := other.requests()
	if len(got) != 1 || got[0].Header.Get("Authorization") != "" {
		t.Errorf("the other host was asked %+v", got)
	}
}

// TestX20_ReverseStopsFronting: to a host with a credential there is no tunnel in which
// another one could be asked for, and its name is the same in every place.
func TestX20_ReverseStopsFronting(t *testing.T) {
	o := newOrigin(t, true, hello)
	g := open(t, o.withCredential("example.com"), generous, believing(o))
	g.refused(connectTo(o.at("example.com")), CodeTunnel)
	g.refused(connectTo("example.com:80"), CodeTunnel)
	g.refused(fmt.Sprintf("GET http://%s/ HTTP/1.1\r\nHost: other.example.org\r\n\r\n", o.at("example.com")), CodeMismatch)
	if o.connections() > 0 {
		t.Error("the outside was reached")
	}
}

// TestReverse_NotEchoed: a head that has the credential doesn't come inside.
func TestReverse_NotEchoed(t *testing.T) {
	o := newOrigin(t, true, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-You-Said", strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	})
	g := open(t, o.withCredential("example.com"), generous, believing(o))
	g.refused(fmt.Sprintf("GET http://%s/ HTTP/1.1\r\nHost: %[1]s\r\n\r\n", o.at("example.com")), CodeEcho)
}

func TestDecider_Credentials(t *testing.T) {
	good := &Credential{Header: "Authorization", Value: value}
	all := []Rule{{Host: "example.org", Ports: []uint16{443, 8443}}}
	d, err := NewDecider(Lists{Builder: []Rule{{Host: "*.example.org"}, {Host: "example.org", Credential: good}, {Host: "example.org", Ports: []uint16{8443}}}, World: all, Contract: all})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		port   uint16
		method string
		code   string
		at     uint16
	}{
		{80, "GET", "", 443}, {443, "GET", "", 443}, {8443, "GET", CodePort, 8443}, {443, "", CodeTunnel, 443},
		{80, "", CodeTunnel, 80}, {8443, "", CodeTunnel, 8443},
	} {
		if got := d.Decide(Ask{Host: "example.org", Port: tt.port, Method: tt.method}); got.Code != tt.code || got.Port != tt.at {
			t.Errorf("%+v: %+v", tt, got)
		}
	}
	if text := fmt.Sprintf("%v %+v %#v", *good, all, good); strings.Contains(text, "s3cret") {
		t.Errorf("printed: %s", text)
	}
	for name, l := range map[string]Lists{
		"a pattern":    {Builder: []Rule{{Host: "*.example.org", Credential: good}}},
		"a contract":   {Contract: []Rule{{Host: "example.org", Credential: good}}},
		"a world":      {World: []Rule{{Host: "example.org", Credential: good}}},
		"two":          {Builder: []Rule{{Host: "example.org", Credential: good}, {Host: "example.org", Credential: &Credential{Header: "X-Key", Value: "x"}}}},
		"no value":     {Builder: []Rule{{Host: "example.org", Credential: &Credential{Header: "X-Key"}}}},
		"two lines":    {Builder: []Rule{{Host: "example.org", Credential: &Credential{Header: "X-Key", Value: "a\r\nHost: b"}}}},
		"no header":    {Builder: []Rule{{Host: "example.org", Credential: &Credential{Header: "", Value: "a"}}}},
		"hop by hop":   {Builder: []Rule{{Host: "example.org", Credential: &Credential{Header: "Proxy-Authorization", Value: "a"}}}},
		"host's field": {Builder: []Rule{{Host: "example.org", Credential: &Credential{Header: "Host", Value: "a"}}}},
	} {
		if _, err := NewDecider(l); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
