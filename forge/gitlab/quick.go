package gitlab

import "strings"

// quiet makes a text one that GitLab executes nothing of (case F1): a line that
// begins with a slash, spaces before it included, gets one space more. GitLab
// takes carriage returns out before it looks for lines, so they go first. It
// doesn't matter what a line is part of: GitLab's idea of code is not Markdown's.
func quiet(text string) string {
	return eachLine(strings.ReplaceAll(text, "\r", ""), func(line string) string {
		if slashed(line) {
			return " " + line
		}
		return line
	})
}

// loud is the text that quiet was given, without its carriage returns.
func loud(text string) string {
	return eachLine(text, func(line string) string {
		if strings.HasPrefix(line, " ") && slashed(line) {
			return line[1:]
		}
		return line
	})
}

func slashed(line string) bool { return strings.HasPrefix(strings.TrimLeft(line, " "), "/") }

func eachLine(text string, f func(string) string) string {
	if !strings.Contains(text, "/") {
		return text
	}
	lines := strings.Split(text, "\n")
	for n, line := range lines {
		lines[n] = f(line)
	}
	return strings.Join(lines, "\n")
}
