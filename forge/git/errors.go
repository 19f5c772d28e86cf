package git

import "errors"

// The codes of this package's errors. A code is stable; its sentence is not.
const (
	CodeURLInvalid      = "git.url_invalid"      // the URL is not on the allow-list
	CodeRefInvalid      = "git.ref_invalid"      // not a safe, full ref name
	CodePathInvalid     = "git.path_invalid"     // not a safe path inside a tree
	CodeOIDInvalid      = "git.oid_invalid"      // not an object id
	CodeRedirectRefused = "git.redirect_refused" // a redirect would have moved the request elsewhere
	CodeNotFound        = "git.not_found"        // no such repository
	CodeObjectMissing   = "git.object_missing"   // the repository has no such object
	CodeObjectInvalid   = "git.object_invalid"   // an object that can't be read
	CodeTooLarge        = "git.too_large"        // over one of the Limits
	CodeBudget          = "git.budget"           // over what fetches may come to together, or hold at one time
	CodeProtocol        = "git.protocol"         // the other side does not speak git as expected
	CodeUnsupported     = "git.unsupported"      // a feature this package does not support
	CodeAuthInvalid     = "git.auth_invalid"     // the credentials given can't be used
	CodeHostKey         = "git.host_key"         // the SSH host key is unknown or has changed
	CodeCommitAmbiguous = "commit.ambiguous"     // two readers may read the commit differently
	CodeCommitUnsigned  = "commit.unsigned"      // no signature
	CodeSignature       = "commit.signature"     // a signature that does not verify
	CodeUntrusted       = "commit.untrusted"     // a good signature by a key that is not trusted
	CodeLost            = "git.lost"             // a ref was not where it was expected
	CodeUnreachable     = "forge.unreachable"    // the server can't be reached, or did not answer
	CodeUnauthorized    = "forge.unauthorized"   // the server wants other credentials
	CodePushRefused     = "forge.push_refused"   // the server refused by a rule of its own
	CodeUnable          = "forge.unable"         // the server answers, and can't do it now
	CodeLocal           = "git.local"            // this machine: a file, a process
)

// Error is the error of this package: a stable code, a sentence, and what the
// reader can do about it. None of them holds a credential.
type Error struct {
	Code   string
	Msg    string
	Remedy string
	Err    error // the cause, if there is one; its text is not printed
}

// Error is the sentence with its code in front, and the remedy behind.
func (e *Error) Error() string {
	s := e.Code + ": " + e.Msg
	if e.Remedy != "" {
		s += " (" + e.Remedy + ")"
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is says whether target is an *Error of the same code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// CodeOf returns the code of the first *Error in err's chain, or "".
func CodeOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// Lasting reports whether an error of reading lies in what the repository holds:
// asked again, it holds the same. A server or network that fails is no such
// error. An object that isn't there is one, though a copy that lags behind may
// have it a moment later.
func Lasting(err error) bool {
	switch CodeOf(err) {
	case CodeObjectMissing, CodeObjectInvalid, CodeTooLarge, CodePathInvalid, CodeOIDInvalid:
		return true
	}
	return false
}

// Reason is the sentence of the first *Error in err's chain, without code and
// remedy, or err's own words.
func Reason(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Msg
	}
	return err.Error()
}

// fail makes an *Error.
func fail(code, msg, remedy string, cause error) *Error {
	return &Error{Code: code, Msg: msg, Remedy: remedy, Err: cause}
}
