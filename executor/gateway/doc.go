// Package gateway is the only way out of a sandbox that has no network.
// It knows nothing of tasks, and starts no process. A Server answers on a listener,
// which comes out of the sandbox's own network, for one run.
//
// # What is served
//
// One connection carries one request, so that nobody has to find where a second one
// begins. It has one of three modes:
//
//   - connect: CONNECT host:port. The answer is 200, and then the client must begin
//     TLS. Its ClientHello must name the asked host; one that names none, or hides
//     it (ECH), is refused. Then bytes are passed through as they are.
//   - plain: GET http://host:port/path and its like. The request is written anew
//     from what was understood of it, without the fields that are between
//     neighbours, and the answer likewise. A redirect is an answer: who follows it
//     asks again, and is decided upon again. Upgrade is refused, asked for or
//     answered with.
//   - reverse: a plain request to a host for which the operator has a Credential. The
//     gateway speaks TLS to the host, takes off what the client says of who it is,
//     and sets the credential. A tunnel to such a host is refused.
//
// # Providers of models
//
// A Credential with an API is for a provider of models. Its requests are held to a table
// (apis), body and all, before the provider is reached: their JSON is read into a tree
// (tree.go), let through a shape (shape.go), and written anew. What isn't in the table is
// left out where it is one value, and refused by name otherwise.
//
// What a request uses is read from the provider's answer as it streams by (usage.go), and
// is in its Record. A few numbers are kept of it, whatever its size.
//
// A request that two readers may read differently is refused: Content-Length beside
// Transfer-Encoding, a second Host, a line without CR LF, a folded line, white space
// before a colon, a Host other than the target.
//
// # Who may ask for what
//
// A Decider holds three lists, those of the builder and of the world, which are the
// operator's, and that of the contract. A request is allowed if a rule of each list
// allows it. A host is a name, or *.name for all below it, at any depth, but not
// itself. Ports are 443 where a rule names none. A rule with methods is for plain
// requests only: in a tunnel they can't be seen, and so not held.
//
// Names are compared in one form: mapped by IDNA, lower case, without the dot at the
// end. An address instead of a name is refused, in every spelling.
//
// An allowed name is looked up once, here, and all that is answered must be public:
// not private, not link-local, not metadata of a cloud, not this machine's own, and
// not one of these in an IPv6 address. What was looked at is what is dialled. The
// operator's rules may open private networks to a host, never the contract's.
//
// # Limits
//
// Connections at once and in all, bytes each way, and the run's time, by one timer.
// What reaches one is closed. Every connection ends in a Record, which has the
// verdict, the code and the rule that decided.
//
// # What it is not
//
// In a tunnel nothing can be seen but the name in its ClientHello. A server that
// answers for several names can be asked inside for another one (domain fronting);
// a server that hands on what it is sent hands on from here too; an allowed host can
// be told whatever the builder knows, one with a credential can show it in a body, and its owner sees the names that are looked
// up below it. A provider's account sees what is sent to its models.
package gateway
