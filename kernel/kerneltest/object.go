package kerneltest

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"crypto/sha1" //nolint:gosec // git's object names
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/lease"
)

// Object is one git object.
type Object struct {
	Kind string // commit, tree or blob
	Data []byte
}

// ID is the object's name.
func (o Object) ID() string {
	h := sha1.New() //nolint:gosec // see the import
	fmt.Fprintf(h, "%s %d\x00", o.Kind, len(o.Data))
	h.Write(o.Data)
	return hex.EncodeToString(h.Sum(nil))
}

// ReadPack reads a pack that holds every object whole, as package git writes
// them.
func ReadPack(data []byte) ([]Object, error) {
	if len(data) < 12+sha1.Size || string(data[:4]) != "PACK" {
		return nil, fmt.Errorf("kerneltest: no pack")
	}
	sum := sha1.Sum(data[:len(data)-sha1.Size]) //nolint:gosec // see the import
	if !bytes.Equal(sum[:], data[len(data)-sha1.Size:]) {
		return nil, fmt.Errorf("kerneltest: the pack's checksum is wrong")
	}
	r := bufio.NewReader(bytes.NewReader(data[12:]))
	out := make([]Object, 0, 8)
	for range binary.BigEndian.Uint32(data[8:]) {
		o, err := readObject(r)
		if err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	return out, nil
}

func readObject(r *bufio.Reader) (Object, error) {
	var kind byte
	for first := true; ; first = false {
		b, err := r.ReadByte()
		if err != nil {
			return Object{}, err
		}
		if first {
			kind = b >> 4 & 7
		}
		if b&0x80 == 0 {
			break // the size is what inflates
		}
	}
	names := map[byte]string{1: "commit", 2: "tree", 3: "blob"}
	if names[kind] == "" {
		return Object{}, fmt.Errorf("kerneltest: object of type %d", kind)
	}
	z, err := zlib.NewReader(r)
	if err != nil {
		return Object{}, err
	}
	data, err := io.ReadAll(z)
	return Object{names[kind], data}, err
}

// Head is what a commit of a state ref says.
type Head struct {
	OID, Parent, Tree                 string
	State, Run, Runner, Stalled       string
	Approval, Waiting, Change         string
	Resumes, Dispatch, Act            string
	Refreshes, RefreshAct, Base, Of   string
	Fixes, Fix                        string
	Attempt, Interruptions, NotBefore int64
	Cut                               int64 // interruptions of runs that were to refresh it
	Codes                             string
}

// ReadHead reads a commit; one that is no event has no State.
func ReadHead(oid string, o Object) Head {
	h := Head{OID: oid}
	head, message, _ := strings.Cut(string(o.Data), "\n\n")
	var seconds int64
	for _, line := range strings.Split(head, "\n") {
		key, value, _ := strings.Cut(line, " ")
		switch key {
		case "tree":
			h.Tree = value
		case "parent":
			h.Parent = value
		case "committer":
			words := strings.Fields(value[strings.LastIndexByte(value, '>')+1:])
			seconds, _ = strconv.ParseInt(words[0], 10, 64) // a fixture's date, or our own
		}
	}
	ev, err := lease.ReadEvent(lease.Head{OID: oid, Message: []byte(message), CommitterSeconds: seconds, CommitterOK: true})
	if err != nil {
		return h
	}
	h.State, h.Run, h.Runner, h.Stalled = ev.State, ev.RunID, ev.RunnerID, ev.StalledRun
	number := func(s string) int64 { n, _ := strconv.ParseInt(s, 10, 64); return n } // 0 where there is none
	for _, t := range ev.Trailers {
		switch t.Key {
		case kernel.TrailerApproval:
			h.Approval = t.Value
		case kernel.TrailerWaitingFor:
			h.Waiting = t.Value
		case kernel.TrailerChange:
			h.Change = t.Value
		case kernel.TrailerRefreshInterruptions:
			h.Cut = number(t.Value)
		case kernel.TrailerRefreshes:
			h.Refreshes = t.Value
		case kernel.TrailerFixes:
			h.Fixes = t.Value
		case kernel.TrailerFix:
			h.Fix = t.Value
		case kernel.TrailerRefreshAct:
			h.RefreshAct = t.Value
		case kernel.TrailerRun:
			h.Of = t.Value
		case kernel.TrailerBase:
			h.Base = t.Value
		case kernel.TrailerResumes:
			h.Resumes = t.Value
		case kernel.TrailerAct:
			h.Act = t.Value
		case kernel.TrailerDispatch:
			h.Dispatch = t.Value
		case kernel.TrailerCodes:
			h.Codes = t.Value
		case kernel.TrailerAttempt:
			h.Attempt = number(t.Value)
		case kernel.TrailerInterruptions:
			h.Interruptions = number(t.Value)
		case kernel.TrailerNotBefore:
			h.NotBefore = number(t.Value) * 1000
		}
	}
	return h
}
