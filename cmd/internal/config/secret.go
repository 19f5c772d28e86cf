package config

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// maxSecretBytes bounds a file that holds a secret.
const maxSecretBytes = 64 << 10

// Secret reads the secret that the environment variable name gives: its value,
// or the content of the file that name_FILE names, without the line's end. Both
// at once, none, or an empty one is an error, which never holds the value.
func Secret(getenv func(string) string, name string) (string, error) {
	secret, err := SecretText(getenv, name)
	if err == nil && getenv(name) == "" && strings.ContainsAny(secret, "\r\n\x00") {
		return "", fmt.Errorf("the file that %s_FILE names holds more than one line", name)
	}
	return secret, err
}

// SecretText is Secret for one of several lines, such as a private key.
func SecretText(getenv func(string) string, name string) (string, error) {
	value, path := getenv(name), getenv(name+"_FILE")
	switch {
	case value != "" && path != "":
		return "", fmt.Errorf("%s and %[1]s_FILE are both set; leave one", name)
	case value != "":
		return value, nil
	case path == "":
		return "", fmt.Errorf("%s is not set; set it, or %[1]s_FILE to the path of a file that holds it", name)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("the file that %s_FILE names can't be read: %w", name, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSecretBytes+1))
	if err != nil {
		return "", fmt.Errorf("the file that %s_FILE names can't be read: %w", name, err)
	}
	secret := strings.TrimRight(string(data), "\r\n")
	switch {
	case len(data) > maxSecretBytes:
		return "", fmt.Errorf("the file that %s_FILE names has more than %d bytes", name, maxSecretBytes)
	case secret == "":
		return "", fmt.Errorf("the file that %s_FILE names is empty", name)
	}
	return secret, nil
}
