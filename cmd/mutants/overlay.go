package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// apply gives the texts of the files that a mutant changes, by their paths from
// the repository's root.
func (m mutant) apply(top string) (map[string]string, error) {
	byFile := map[string][]edit{}
	for _, e := range m.edits {
		byFile[e.file] = append(byFile[e.file], e)
	}
	texts := map[string]string{}
	for file, edits := range byFile {
		text, err := os.ReadFile(filepath.Join(top, filepath.FromSlash(file)))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.where, err)
		}
		if texts[file], err = replace(string(text), edits); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", m.where, file, err)
		}
	}
	return texts, nil
}

// place is where an edit belongs in a text.
type place struct {
	from, to int
	new      string
}

// replace makes all edits of one file. Each is looked for in the text as it was.
func replace(text string, edits []edit) (string, error) {
	var places []place
	for _, e := range edits {
		p, err := e.find(text)
		if err != nil {
			return "", err
		}
		places = append(places, p)
	}
	out, err := splice(text, places)
	if err == nil && out == text {
		return "", errors.New("the new text is the old one")
	}
	return out, err
}

// splice puts new texts in their places.
func splice(text string, places []place) (string, error) {
	slices.SortStableFunc(places, func(a, b place) int { return cmp.Compare(a.from, b.from) })
	var out strings.Builder
	done := 0
	for _, p := range places {
		if p.from < done {
			return "", errors.New("two places of the mutant overlap")
		}
		out.WriteString(text[done:p.from] + p.new)
		done = p.to
	}
	out.WriteString(text[done:])
	return out.String(), nil
}

// find gives the one place of an edit.
func (e edit) find(text string) (place, error) {
	old := strings.Join(e.old, "\n")
	whole := e.new == nil
	if whole {
		old += "\n"
	}
	if old == "" {
		return place{}, errors.New("the old text is empty")
	}
	var found []int
	for at := 0; ; {
		i := strings.Index(text[at:], old)
		if i < 0 {
			break
		}
		if i += at; !whole || i == 0 || text[i-1] == '\n' {
			found = append(found, i)
		}
		at = i + 1
	}
	if len(found) != 1 {
		return place{}, fmt.Errorf("the old text occurs %d times, not once:\n%s", len(found), strings.TrimSuffix(old, "\n"))
	}
	return place{found[0], found[0] + len(old), strings.Join(e.new, "\n")}, nil
}

// writeOverlay puts texts below dir, and gives the file that tells the go command of them.
func writeOverlay(top, dir string, texts map[string]string) (string, error) {
	instead := map[string]string{}
	for file, text := range texts {
		to := filepath.Join(dir, strconv.Itoa(len(instead))+"-"+filepath.Base(file))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			return "", err
		}
		instead[filepath.Join(top, filepath.FromSlash(file))] = to
	}
	data, err := json.Marshal(map[string]any{"Replace": instead})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, data, 0o600)
}
