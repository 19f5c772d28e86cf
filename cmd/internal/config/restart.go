package config

import "reflect"

// NeedRestart lists the keys that differ between the configuration that a server
// was started with and another one, and that it can't take over while it runs. A
// forge that one of the two doesn't speak of is such a key.
func NeedRestart(started, now Config) (keys []string) {
	for _, f := range []struct {
		key       string
		then, now bool
	}{
		{"forges.github", started.Forges.GitHub.On(), now.Forges.GitHub.On()},
		{"forges.gitlab", started.Forges.GitLab.On(), now.Forges.GitLab.On()},
		{"forges.local", started.Forges.Local.On(), now.Forges.Local.On()},
	} {
		if f.then != f.now {
			keys = append(keys, f.key)
		}
	}
	return append(keys, differing(reflect.ValueOf(started), reflect.ValueOf(now), "")...)
}

// differing are the keys with the tag restart whose values differ.
func differing(a, b reflect.Value, prefix string) (keys []string) {
	for i := range a.NumField() {
		f := a.Type().Field(i)
		key := join(prefix, f.Tag.Get("key"))
		switch {
		case f.Tag.Get("restart") != "":
			if !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
				keys = append(keys, key)
			}
		case f.Type.Kind() == reflect.Struct:
			keys = append(keys, differing(a.Field(i), b.Field(i), key)...)
		}
	}
	return keys
}
