package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/worldtest"
)

// byPage are hands in a browser, on the pages of the embedded forge.
type byPage struct {
	*browser
	site *forgeSite
	url  string // of the repository
}

// TestI17_LabelToMergeInABrowser is the walk on the embedded forge, as a maintainer sees and
// does it who has nothing but its pages.
func TestI17_LabelToMergeInABrowser(t *testing.T) {
	onForges(t, func(t *testing.T, s *forgeSite) {
		url, token := s.Pages(t)
		h := byPage{openBrowser(t), s, fmt.Sprintf("%s/%s", url, s.Repo)}
		h.do(chromedp.Navigate(url+"/-/login"), chromedp.SendKeys("#token", token), chromedp.Click("form.say button"), chromedp.WaitVisible("#repos"))
		newWalk(s, h).walk()
	}, "local")
}

// open opens the page of an issue.
func (h byPage) open(issue int64) {
	h.do(chromedp.Navigate(fmt.Sprintf("%s/issues/%d", h.url, issue)), chromedp.WaitVisible("#timeline"))
}

// openChange opens the page of a change.
func (h byPage) openChange(number int64) {
	h.do(chromedp.Navigate(fmt.Sprintf("%s/changes/%d", h.url, number)), chromedp.WaitVisible("#files"))
}

// shows waits until a part of the page has a text.
func (h byPage) shows(part, text string) {
	h.until(fmt.Sprintf("//*[@id=%q][contains(., %q)]", part, text))
}

const labelOff = `button[title="remove the label ` + worldtest.Label + `"]`

func (h byPage) label(issue int64) {
	h.open(issue)
	h.do(chromedp.Click("#approve"), chromedp.WaitVisible(labelOff))
}

func (h byPage) unlabel(issue int64) {
	h.open(issue)
	h.do(chromedp.Click(labelOff), chromedp.WaitVisible("#approve"))
}

func (h byPage) comment(issue int64, body string) {
	h.open(issue)
	h.say(body)
}

func (h byPage) commentOn(c forge.Change, body string) {
	h.openChange(c.Number)
	h.say(body)
}

func (h byPage) say(body string) {
	const form = "form.card.say:not(#review) "
	h.do(chromedp.SetValue(form+"textarea", body), chromedp.Click(form+"button"))
	h.shows("timeline", body)
}

func (h byPage) review(c forge.Change, at forge.ReviewPlace, body string) {
	h.openChange(c.Number)
	h.do(chromedp.SetValue("#review select", at.Path), chromedp.SendKeys(`#review [name="start"]`, fmt.Sprint(at.Start)),
		chromedp.SendKeys(`#review [name="end"]`, fmt.Sprint(at.End)), chromedp.SetValue("#review textarea", body), chromedp.Click("#review button"))
	h.shows("timeline", body)
}

func (h byPage) merge(c forge.Change) {
	h.openChange(c.Number)
	h.do(chromedp.Click("#merge"))
	h.shows("headline", "merged")
}

// look looks at the issue and its change; where pictures are wanted, at the other issue's, too.
func (h byPage) look(step string, issue int64, says string) {
	name := strings.ReplaceAll(step, " ", "-")
	for _, n := range []int64{guardedIssue, revisedIssue} {
		if n != issue && pictures() == "" {
			continue
		}
		h.open(n)
		if n == issue && !strings.Contains(h.text(), says) {
			h.t.Errorf("after %s the page of #%d doesn't say %q:\n%s", step, n, says, h.text())
		}
		h.picture(fmt.Sprintf("walk-%s-issue-%d", name, n))
		c, err := h.site.findChange(n)
		if err != nil {
			continue // there is none yet
		}
		h.openChange(c.Number)
		h.picture(fmt.Sprintf("walk-%s-change-%d", name, n))
	}
}
