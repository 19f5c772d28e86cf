package forge

import "fmt"

// permissionWords are the contract's words, in the order of the constants.
var permissionWords = [...]string{"none", "read", "triage", "write", "maintain", "admin"}

// String is the contract's word.
func (p Permission) String() string {
	if p < None || p > Admin {
		return fmt.Sprintf("Permission(%d)", int(p))
	}
	return permissionWords[p]
}

// ParsePermission reads the contract's word.
func ParsePermission(word string) (Permission, error) {
	for i, w := range permissionWords {
		if w == word {
			return Permission(i), nil
		}
	}
	return None, fmt.Errorf("%q is no permission: none, read, triage, write, maintain or admin", word)
}
