package gateway

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// maxHead bounds a request's line and header, in bytes: several times what clients send.
const maxHead = 32 << 10

// once are the fields that decide where a request goes and where it ends. A second
// one is read differently by different readers.
var once = []string{"host", "content-length", "transfer-encoding", "connection", "expect"}

// readRequest reads one request. It must have one meaning to every reader, so that
// much that HTTP allows or forgives is refused. Host is what the field of that name
// says: http.Request forgets it where there is a whole URL.
func readRequest(r *bufio.Reader) (req *http.Request, host string, err error) {
	head, host, err := readHead(r)
	if err != nil {
		return nil, "", err
	}
	// A tunnel has no body, and what follows its head must stay in r.
	body := io.Reader(r)
	if bytes.HasPrefix(head, []byte(http.MethodConnect+" ")) {
		body = http.NoBody
	}
	// ReadRequest reads no further than the head, which ends all that it looks for.
	req, err = http.ReadRequest(bufio.NewReader(io.MultiReader(bytes.NewReader(head), body)))
	if err != nil {
		return nil, "", &fault{Denied, CodeRequest, "no HTTP request", err}
	}
	return req, host, nil
}

// readHead reads up to the empty line, and refuses what http.ReadRequest would let
// pass: it looks at bytes and numbers by itself.
func readHead(r *bufio.Reader) (head []byte, host string, err error) {
	seen := map[string]string{}
	for {
		line, err := r.ReadSlice('\n')
		if len(head)+len(line) > maxHead {
			return nil, "", denied(CodeRequest, "the head is too long")
		}
		if err != nil {
			return nil, "", &fault{Denied, CodeRequest, "no whole head", err}
		}
		first := len(head) == 0
		head = append(head, line...)
		text, ok := strings.CutSuffix(string(line), "\r\n")
		switch {
		case !ok:
			return nil, "", denied(CodeRequest, "a line doesn't end with CR LF")
		case first:
			err = checkLine(text)
		case text == "":
			_, length := seen["content-length"]
			if _, coding := seen["transfer-encoding"]; coding && length {
				return nil, "", denied(CodeRequest, "Content-Length and Transfer-Encoding are both there")
			}
			return head, seen["host"], nil
		default:
			err = checkField(text, seen)
		}
		if err != nil {
			return nil, "", err
		}
	}
}

// checkLine wants three words and a version that is known. Old clients ask for
// tunnels in HTTP/1.0.
func checkLine(text string) error {
	words := strings.Split(text, " ")
	if len(words) != 3 || words[2] != "HTTP/1.1" && (words[2] != "HTTP/1.0" || words[0] != http.MethodConnect) {
		return denied(CodeRequest, "no line of HTTP/1.1")
	}
	return nil
}

// checkField wants a name and a colon, and notes the fields that may come once.
func checkField(text string, seen map[string]string) error {
	name, value, ok := strings.Cut(text, ":")
	if !ok || !httpguts.ValidHeaderFieldName(name) {
		return denied(CodeRequest, "a line of the header is malformed")
	}
	name = strings.ToLower(name)
	if _, again := seen[name]; again && slices.Contains(once, name) {
		return denied(CodeRequest, name+" is there twice")
	}
	seen[name] = strings.Trim(value, " \t")
	return nil
}
