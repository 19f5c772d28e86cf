package git

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// Person is an author or committer as a commit names one.
type Person struct {
	Name    string
	Email   string
	Seconds int64  // Unix seconds
	TZ      string // such as +0200
	OK      bool   // the line was well-formed; otherwise the rest may be empty
}

// Commit is one commit object.
type Commit struct {
	OID       OID
	Tree      OID
	Parents   []OID
	Author    Person
	Committer Person
	Message   []byte
	Signature []byte // armored; empty if unsigned
	Raw       []byte // the object's bytes, as hashed

	// Ambiguous says why two readers may read the commit differently. Empty for
	// a commit that is beyond doubt.
	Ambiguous []string

	payload []byte // Raw without its signature
}

// maxSeconds is the last second of the year 9999. Later dates are read
// differently by different programs, and mean nothing anyway.
const maxSeconds = 253402300799

// ParseCommit reads a raw commit object strictly. If the bytes can be read in two
// ways, or if go-git reads them otherwise, the error has the code
// commit.ambiguous, and the commit returned beside it holds what was read, so
// that its writer can still be judged (case G4).
func ParseCommit(raw []byte) (Commit, error) {
	p := commitParser{c: Commit{OID: hashObject(objCommit, raw), Raw: raw}}
	p.parse(raw)
	if len(p.c.Ambiguous) == 0 {
		p.compareGoGit()
	}
	if len(p.c.Ambiguous) == 0 {
		return p.c, nil
	}
	return p.c, fail(CodeCommitAmbiguous,
		"commit "+string(p.c.OID)+" can be read in more than one way: "+strings.Join(p.c.Ambiguous, ", "),
		"have its author write it again with git itself", nil)
}

// commitParser walks the header lines in the one order that git writes.
type commitParser struct {
	c    Commit
	seen map[string]bool
}

func (p *commitParser) doubt(why string) { p.c.Ambiguous = append(p.c.Ambiguous, why) }

// headerRank is the order of the headers that every commit has. Any other
// header comes after them.
func headerRank(key string) int {
	switch key {
	case "tree":
		return 1
	case "parent":
		return 2
	case "author":
		return 3
	case "committer":
		return 4
	}
	return 5
}

func (p *commitParser) parse(raw []byte) {
	p.seen = map[string]bool{}
	if bytes.IndexByte(raw, 0) >= 0 {
		p.doubt("NUL byte")
	}
	head, message, ok := bytes.Cut(raw, []byte("\n\n"))
	if !ok {
		// git writes a blank line even before an empty message.
		p.doubt("no blank line after the headers")
		head = bytes.TrimSuffix(raw, []byte("\n"))
	}
	p.c.Message = message
	lines := strings.Split(string(head), "\n")
	last := 0
	for i := 0; i < len(lines); {
		n := i + 1
		for n < len(lines) && strings.HasPrefix(lines[n], " ") {
			n++
		}
		last = p.header(lines[i:n], last)
		i = n
	}
	for _, key := range []string{"tree", "author", "committer"} {
		if !p.seen[key] {
			p.doubt("no " + key + " header")
		}
	}
	p.c.payload = unsigned(raw)
}

// header takes one header with its continuation lines and returns its rank.
func (p *commitParser) header(lines []string, last int) int {
	key, value, _ := strings.Cut(lines[0], " ")
	rank := headerRank(key)
	if rank < last {
		p.doubt("header " + strconv.Quote(key) + " out of order")
	}
	if p.seen[key] && key != "parent" && key != "mergetag" {
		p.doubt("header " + strconv.Quote(key) + " twice")
		return max(rank, last)
	}
	p.seen[key] = true
	if len(lines) > 1 && rank < 5 {
		p.doubt("header " + strconv.Quote(key) + " folded")
	}
	p.value(key, value, lines)
	return max(rank, last)
}

func (p *commitParser) value(key, value string, lines []string) {
	switch key {
	case "":
		p.doubt("header without a name")
	case "tree":
		p.c.Tree = p.oid(value)
	case "parent":
		p.c.Parents = append(p.c.Parents, p.oid(value))
	case "author":
		p.c.Author = p.person(key, value)
	case "committer":
		p.c.Committer = p.person(key, value)
	case "encoding":
		p.doubt("encoding header")
	case "gpgsig":
		sig := value
		for _, l := range lines[1:] {
			sig += "\n" + l[1:]
		}
		p.c.Signature = []byte(sig)
	}
}

func (p *commitParser) oid(s string) OID {
	if o := OID(s); o.Valid() {
		return o
	}
	p.doubt("object id malformed")
	return ""
}

// person reads "name <email> seconds zone".
func (p *commitParser) person(key, s string) Person {
	open, end := strings.IndexByte(s, '<'), strings.LastIndexByte(s, '>')
	if open < 0 || end < open || strings.Count(s, "<") != 1 || strings.Count(s, ">") != 1 {
		p.doubt(key + " malformed")
		return Person{}
	}
	who := Person{Name: strings.Trim(s[:open], " "), Email: s[open+1 : end]}
	seconds, zone, ok := strings.Cut(strings.TrimPrefix(s[end+1:], " "), " ")
	if !ok || !strings.HasPrefix(s[end+1:], " ") {
		p.doubt(key + " date malformed")
		return who
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil || n > maxSeconds || seconds != strconv.FormatInt(n, 10) || n < 0 {
		p.doubt(key + " date out of range or malformed")
		return who
	}
	who.Seconds = n
	if !validZone(zone) {
		p.doubt(key + " time zone malformed")
		return who
	}
	who.TZ, who.OK = zone, true
	return who
}

// validZone accepts a sign, two digits of hours up to 14, two of minutes.
// go-git reads -0030 as +0030, so a negative part of an hour is refused.
func validZone(z string) bool {
	if len(z) != 5 || z[0] != '+' && z[0] != '-' || strings.Trim(z[1:], "0123456789") != "" {
		return false
	}
	hours, _ := strconv.Atoi(z[1:3])
	minutes, _ := strconv.Atoi(z[3:])
	return hours <= 14 && minutes < 60 && !(z[0] == '-' && hours == 0 && minutes > 0)
}

// compareGoGit doubts a commit that go-git reads otherwise.
func (p *commitParser) compareGoGit() {
	var obj plumbing.MemoryObject
	obj.SetType(plumbing.CommitObject)
	_, _ = obj.Write(p.c.Raw) // never fails: it appends to memory
	var g object.Commit
	if err := g.Decode(&obj); err != nil {
		p.doubt("go-git can't read it")
		return
	}
	same := g.TreeHash.String() == string(p.c.Tree) && g.Message == string(p.c.Message) &&
		len(g.ParentHashes) == len(p.c.Parents) &&
		samePerson(g.Author, p.c.Author) && samePerson(g.Committer, p.c.Committer) &&
		strings.TrimSuffix(g.PGPSignature, "\n") == strings.TrimSuffix(string(p.c.Signature), "\n")
	for i := range g.ParentHashes {
		same = same && g.ParentHashes[i].String() == string(p.c.Parents[i])
	}
	if !same {
		p.doubt("go-git reads it otherwise")
	}
}

func samePerson(g object.Signature, p Person) bool {
	return g.Name == p.Name && g.Email == p.Email && g.When.Unix() == p.Seconds &&
		g.When.Format("-0700") == strings.Replace(p.TZ, "-0000", "+0000", 1)
}

// unsigned returns raw without gpgsig headers: the bytes that are signed.
func unsigned(raw []byte) []byte {
	end := bytes.Index(raw, []byte("\n\n"))
	if end < 0 {
		return raw
	}
	out := make([]byte, 0, len(raw))
	skip := false
	for line := range bytes.Lines(raw[:end+1]) {
		if !bytes.HasPrefix(line, []byte(" ")) {
			skip = bytes.HasPrefix(line, []byte("gpgsig ")) || bytes.HasPrefix(line, []byte("gpgsig-sha256 "))
		}
		if !skip {
			out = append(out, line...)
		}
	}
	return append(out, raw[end+1:]...)
}
