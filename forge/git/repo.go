package git

import (
	"context"
	"crypto/x509"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/forge/git/internal/pkt"
)

// Endpoint names a repository and how to prove who asks for it.
type Endpoint struct {
	// URL is an absolute local path, or a file, http, https or ssh URL, or the
	// short form user@host:path. A credential inside the URL is an error.
	URL  string
	Auth Auth
}

// Auth holds credentials. The zero value is anonymous access (over SSH: the
// agent). Only what fits the URL's scheme is used.
type Auth struct {
	Username string // HTTP basic; over SSH the user if the URL names none
	Password string // HTTP basic
	// AskPassword is asked for the password before each request, in place of
	// Password: a credential that ends sooner than the repository is used. It is
	// called at the same time by those who ask at the same time. If it fails,
	// nothing is sent.
	AskPassword func(context.Context) (string, error)
	Token       string // HTTP bearer; wins over Username and Password

	// AllowPlaintext lets credentials go over plain http to another machine.
	AllowPlaintext bool

	SSHKeys    []ssh.Signer // keys to offer over SSH; none: the agent at SSH_AUTH_SOCK
	KnownHosts []string     // known_hosts files; none: ~/.ssh/known_hosts
}

// Options are the settings of an open repository. The zero value is usable.
type Options struct {
	Timeout    time.Duration  // of one exchange with the server; 0: DefaultTimeout
	HTTPClient *http.Client   // only its Transport is used; nil: one of our own
	RootCAs    *x509.CertPool // over HTTPS with our own transport; nil: the system's
	Limits     Limits
	Pool       *Pool        // what all repositories of the process hold together; nil: one of its own
	Logger     *slog.Logger // nil: nothing is logged
	GitBinary  string       // the git program, for repositories on disk; empty: "git"
}

// Repo is an open repository. Its methods may be called concurrently.
type Repo struct {
	tr      transport
	local   *local // nil: the repository is not on this disk
	limits  Limits
	pool    *Pool // this repository's part
	timeout time.Duration
	clean   redactor
	log     *slog.Logger
	cache   *objectCache

	upload  atomic.Pointer[advert] // upload-pack's capabilities, without refs
	receive atomic.Pointer[advert] // receive-pack's capabilities, without refs
	v2      atomic.Int32           // 0: not known; 1: the server speaks version 2; -1: it does not
	recent  recentCommits          // those read whole, for Blobs over version 0
}

// Open validates the endpoint and prepares access. It does not talk to a
// server; a repository on disk is looked up. Errors: git.url_invalid,
// git.not_found, git.unsupported, git.auth_invalid, git.host_key.
func Open(_ context.Context, ep Endpoint, opts Options) (*Repo, error) {
	loc, err := parseURL(ep.URL)
	if err != nil {
		return nil, err
	}
	r := &Repo{
		limits: opts.Limits.orDefaults(), timeout: opts.Timeout,
		clean: newRedactor(ep.Auth), log: opts.Logger,
	}
	if r.timeout <= 0 {
		r.timeout = DefaultTimeout
	}
	if opts.Pool == nil {
		opts.Pool = NewPool(PoolDisk, PoolMemory)
	}
	r.pool = opts.Pool.half()
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	r.cache = newObjectCache(r.limits)
	if err := r.connect(loc, ep, opts); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Repo) connect(loc location, ep Endpoint, opts Options) (err error) {
	switch loc.scheme {
	case "file":
		if r.local, err = openLocal(loc.path, r.limits.Object); err != nil {
			return err
		}
		git := opts.GitBinary
		if git == "" {
			git = "git"
		}
		r.tr = &processTransport{git: git, dir: r.local.dir}
		r.v2.Store(1) // every git since 2.18
	case "ssh":
		r.tr, err = newSSHTransport(loc, ep)
	default:
		r.tr, err = newHTTPTransport(loc, ep, opts, r.clean)
	}
	return err
}

// Close waits for what git still does in a repository on disk (hooks behind a
// push, as git push waits for them), and releases connections and files.
func (r *Repo) Close() error {
	if r.local != nil {
		r.local.store.close()
	}
	return r.tr.close()
}

func (r *Repo) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, r.timeout)
}

// Refs is what a repository advertised at one moment.
type Refs struct {
	Head   string // the ref that HEAD points to, such as refs/heads/main; "" if detached or unknown
	head   OID    // what HEAD comes to
	byName map[string]OID
}

// OID returns the object id of the ref of that full name, the zero id if there is none
// or it wasn't asked for. That of Head is always there, and under [OnlyHead] what HEAD
// comes to, also where it points to no branch.
func (r Refs) OID(name string) OID {
	if oid, ok := r.byName[name]; ok {
		return oid
	}
	if name != "" && name == r.Head || name == OnlyHead {
		return r.head.orZero()
	}
	return OID("").orZero()
}

// Names returns the names of the refs that were asked for, sorted.
func (r Refs) Names() []string {
	out := make([]string, 0, len(r.byName))
	for n := range r.byName {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

// Equal reports whether the same refs were there, where they were. What was asked for was
// the same.
func (r Refs) Equal(o Refs) bool {
	return r.Head == o.Head && r.head == o.head && maps.Equal(r.byName, o.byName)
}

// OnlyHead is a name for [Repo.Refs]: where HEAD points, and no other ref.
const OnlyHead = "HEAD"

// Refs reads refs from the source of truth, never from a cache. A name that
// ends in a slash is a prefix. Without names all refs are read; [OnlyHead] asks for
// nothing but Head, which is filled in any case where the server tells it; of an
// empty repository only one on disk does.
func (r *Repo) Refs(ctx context.Context, names ...string) (Refs, error) {
	for _, n := range names {
		if err := validatePattern(n); err != nil {
			return Refs{}, err
		}
	}
	if r.local != nil && r.local.files {
		return r.local.refs(names)
	}
	ctx, cancel := r.deadline(ctx)
	defer cancel()
	if r.tr.stateless() && r.v2.Load() >= 0 {
		refs, err := r.lsRefs(ctx, names)
		if err == nil {
			r.v2.Store(1)
			return refs, nil
		}
		if r.v2.Load() > 0 || CodeOf(err) == CodeUnauthorized || CodeOf(err) == CodeNotFound {
			return Refs{}, err
		}
	}
	return r.advertisedRefs(ctx, names)
}

// validatePattern accepts a full ref name, a prefix below refs/ that ends in a slash,
// or OnlyHead.
func validatePattern(name string) error {
	if name == "refs/" || name == OnlyHead {
		return nil
	}
	if p, ok := strings.CutSuffix(name, "/"); ok {
		name = p + "/x"
	}
	return ValidateRef(name)
}

// lsRefs asks a version 2 server in one request, so that its cost does not grow
// with the number of refs. A server of version 0 does not understand it, and
// advertisedRefs follows.
func (r *Repo) lsRefs(ctx context.Context, names []string) (Refs, error) {
	c, err := r.tr.dial(ctx, uploadPack)
	if err != nil {
		return Refs{}, r.readError(err, "")
	}
	defer c.finish(false)
	return r.lsRefsOn(ctx, c, names)
}

func (r *Repo) lsRefsOn(ctx context.Context, c conn, names []string) (Refs, error) {
	answer, err := c.send(ctx, lsRefsRequest(names), true)
	if err != nil {
		return Refs{}, r.readError(err, c.words())
	}
	refs, err := readLsRefs(r.list(ctx, answer), names)
	return refs, r.readError(err, c.words())
}

// lsRefsRequest asks a version 2 server for refs. Prefixes match more than exact
// names do; readLsRefs sorts that out.
func lsRefsRequest(names []string) []byte {
	b := pkt.Append(nil, "command=ls-refs\n")
	b = pkt.Append(b, "agent=writ\n")
	b = append(b, "0001"...)
	b = pkt.Append(b, "symrefs\n")
	if len(names) > 0 {
		b = pkt.Append(b, "ref-prefix "+OnlyHead+"\n")
		for _, n := range names {
			if n != OnlyHead {
				b = pkt.Append(b, "ref-prefix %s\n", n)
			}
		}
	}
	return append(b, "0000"...)
}

// readLsRefs reads the answer to lsRefsRequest.
func readLsRefs(r io.Reader, names []string) (Refs, error) {
	out := Refs{byName: map[string]OID{}}
	p := newPktReader(r)
	for {
		kind, line, err := p.next()
		if err != nil {
			return out, err
		}
		if kind != pkt.Data {
			return out, nil
		}
		f := strings.Fields(string(line))
		if len(f) < 2 || !OID(f[0]).Valid() && f[0] != "unborn" {
			return out, fail(CodeProtocol, "the server's list of refs is malformed", "", nil)
		}
		if f[1] == OnlyHead {
			if f[0] != "unborn" {
				out.head = OID(f[0])
			}
			for _, attr := range f[2:] {
				if target, ok := strings.CutPrefix(attr, "symref-target:"); ok {
					out.Head = target
				}
			}
		} else if wanted(f[1], names) && f[0] != "unborn" {
			out.byName[f[1]] = OID(f[0])
			if err := tooMany(out); err != nil {
				return out, err
			}
		}
	}
}

// list bounds a list of refs.
func (r *Repo) list(ctx context.Context, from io.Reader) io.Reader {
	return &limitReader{r: from, n: r.limits.Advert, what: "the list of refs", budget: BudgetOf(ctx)}
}

func (r *Repo) advertisedRefs(ctx context.Context, names []string) (Refs, error) {
	c, err := r.tr.dial(ctx, uploadPack)
	if err != nil {
		return Refs{}, r.readError(err, "")
	}
	defer c.finish(false)
	stream, err := c.advert(ctx)
	if err != nil {
		return Refs{}, r.readError(err, c.words())
	}
	ad, err := readAdvert(r.list(ctx, stream), names)
	if err != nil {
		return Refs{}, r.readError(err, c.words())
	}
	if err := checkFormat(ad); err != nil {
		return Refs{}, err
	}
	if !ad.v2 {
		r.v2.Store(-1)
		return ad.refs, nil
	}
	if r.tr.stateless() {
		return r.lsRefs(ctx, names)
	}
	return r.lsRefsOn(ctx, c, names)
}
