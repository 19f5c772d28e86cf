// Package instancekey keeps an instance's signing key: one ed25519 key in the
// state directory, as OpenSSH writes it, so that ssh-keygen and git can use it.
//
//	<state>/key      private, mode 0600 or stricter, not encrypted
//	<state>/key.pub  public, "ssh-ed25519 AAAA…"
//	<state>/key.next the next private key, while the one takes the other's place
//
// The key signs the checkpoints of the ledger and the commits that writ pushes.
// Its fingerprint is the instance's name in every record. The package never
// prints the private half, never overwrites a key, and refuses one that others
// may read: who can read it can testify in the instance's name.
package instancekey
